"""Ejected packages of real captures: their own tests pass, and `install()` puts them back."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.integration.conftest import Command

pytestmark = pytest.mark.integration

MODEL = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(24), nn.Linear(24, 48)

    def forward(self, x):
        return nn.functional.gelu(self.up(self.norm(x)))

torch.manual_seed(0)
model = Model().to("{device}")

def inputs():
    return (torch.randn(6, 24, device="{device}"),)
"""
PLACED = """
import importlib, sys
import torch
sys.path[:0] = ["ops", "."]
from model import inputs, model
packages = [importlib.import_module(name) for name in sys.argv[1:]]
eager = model(*inputs())
passes = [package.install() for package in packages]
compiled = torch.compile(model)(*inputs())
assert all(each.found and each.found[0][0] == 1 for each in passes), [each.found for each in passes]
assert "ctrace" not in sys.modules
torch.manual_seed(1)
x = inputs()
torch.testing.assert_close(torch.compile(model)(*x), model(*x))
for package in packages:
    package.uninstall()
assert torch._inductor.config.post_grad_custom_post_pass is None
"""


def ejected(command: Command, folder: Path, *words: str, device: str = "cpu") -> list[Path]:
    (folder / "model.py").write_text(MODEL.format(device=device))
    done = command("kernels", "eject", "--all", "-o", "ops", "--of", "model.py", *words)
    assert done.code == 0, done.err
    return sorted(each.parent for each in (folder / "ops").glob("*/ctrace.json"))


def assert_tests_pass(packages: list[Path]) -> None:
    for package in packages:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(package)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=package.parent, check=False)
        assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("words", [("--target", "h100"), ("--target", "h100", "--dynamic"), ()], ids=" ".join)
def test_packages_pass_their_tests_and_are_put_back(ctrace: Command, tmp_path: Path, words: tuple[str, ...]) -> None:
    packages = ejected(ctrace, tmp_path, *words)
    assert any("gelu" in each.name for each in packages)
    assert_tests_pass(packages)
    # With dynamic sizes, torch compiles the backward at once, and the program runs the forward alone.
    names = [each.name for each in packages if not each.name.endswith("_backward")]
    script = [sys.executable, "-c", PLACED, *names]
    done = subprocess.run(script, capture_output=True, text=True, cwd=tmp_path, env={**os.environ}, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA here")
@pytest.mark.parametrize("words", [(), ("--train",), ("--train", "--dynamic")], ids=" ".join)
def test_packages_of_a_gpu_pass_their_tests(ctrace: Command, tmp_path: Path, words: tuple[str, ...]) -> None:
    packages = ejected(ctrace, tmp_path, *words, device="cuda")
    assert packages
    assert_tests_pass(packages)


CACHED = """
import json, sys
import torch
from torch._dynamo.utils import counters
sys.path[:0] = ["ops", "."]
from model import inputs, model
model.requires_grad_(False)
import gelu_1
gelu_1.install()
x = inputs()
found = torch.compile(model)(*x)
caches = {**counters["inductor"], **counters["aot_autograd"]}
names = ("fxgraph_cache_hit", "fxgraph_cache_miss", "fxgraph_cache_bypass", "autograd_cache_hit")
print(json.dumps([*(caches.get(each, 0) for each in names), (found - model(*x)).abs().max().item()]))
"""
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA here"))]


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("device", DEVICES)
def test_caches_stay_on_and_an_edited_kernel_is_compiled_again(ctrace: Command, tmp_path: Path, device: str) -> None:
    """The second process compiles from the cache of the first one; the third one finds the kernel edited."""
    (tmp_path / "model.py").write_text(MODEL.format(device=device))
    done = ctrace("kernels", "eject", "gelu", "-o", "ops", "--of", "model.py")
    assert done.code == 0, done.err
    (tmp_path / "cached.py").write_text(CACHED)

    def compile_in_a_process() -> list[float]:
        done = ctrace.python("cached.py", TORCHINDUCTOR_FX_GRAPH_CACHE="1")
        assert done.returncode == 0, done.stderr[-3000:]
        return list(json.loads(done.stdout))

    *first, by = compile_in_a_process()
    assert (first, by < 1e-4) == ([0, 1, 0, 0], True)
    *second, by = compile_in_a_process()
    assert (second, by < 1e-4) == ([1, 0, 0, 1], True)
    kernel = tmp_path / "ops" / "gelu_1" / ("kernel.cpp" if device == "cpu" else "kernel.py")
    text = kernel.read_text()
    assert "0.5" in text
    kernel.write_text(text.replace("0.5", "0.75", 1))
    *third, by = compile_in_a_process()
    assert (third, by > 0.1) == ([0, 1, 0, 0], True)
