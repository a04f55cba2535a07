"""`install()` in a program that is compiled for a GPU: compiled code launches the ejected kernels itself."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Command
from tests.support.warm import WarmServer

pytest.importorskip("torch")
pytest.importorskip("triton")

MODEL = """\
import torch
from torch import nn

class Net(nn.Module):
    def forward(self, x, y, z):
        norm = nn.functional.layer_norm(x, (60,))
        bounded = torch.tanh(norm) * torch.log1p(y.abs())  # libdevice
        return bounded @ bounded.t(), (z * z).sum(), z.max(-1)

def model():
    return Net()

def inputs():
    return torch.randn(100, 60), torch.randn(100, 60), torch.randn(2000, 1000)
"""
INSTALLED = """
import atexit, importlib, json, os, sys
from pathlib import Path
from ctrace.inspector.features.workshop.child.importing import imported, installed
from ctrace.inspector.features.workshop.child.patched_model import new_passes, observed, settings
from ctrace.inspector.features.workshop.kernel_package import packages_in

before = settings()
packages = [imported(each) for each in packages_in("ops")]
handles = list(map(installed, packages))
if os.environ["OPAQUE"]:
    from torch._subclasses.functional_tensor import FunctionalTensor
    def failing(compute):
        def fails(*values):
            if isinstance(values[0], FunctionalTensor):
                raise ValueError("not traceable")
            return compute(*values)
        return fails
    for each in packages:
        each.part("op").compute = failing(each.part("op").compute)
observing = observed(new_passes(before, settings()), packages)
seen = observing.__enter__()

@atexit.register
def report():
    Path("seen.json").write_text(json.dumps({
        "operators": [name for each in seen.rewrites for name in each.operators],
        "called": [why for each in seen.rewrites for why in each.called],
        "uuids": [each.uuid() for each in handles],
    }))
"""


@pytest.fixture(scope="module", params=[(), pytest.param(("--dynamic",), marks=pytest.mark.slow)], ids=" ".join)
def ejected(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, warm_server: WarmServer | None
) -> tuple[Command, list[str]]:
    ctrace = Command(tmp_path_factory.mktemp("ejected"), warm_server)
    words = [*request.param, "--target", "h100"]
    ctrace.write("model.py", MODEL)
    done = ctrace("kernels", "eject", "--all", "-o", "ops", "--of", "model.py", *words)
    assert done.code == 0, done.err
    ctrace.write("installed.py", MODEL + INSTALLED)
    return ctrace, words


def launches(ctrace: Command, file: str, words: list[str], opaque: str = "") -> tuple[str, list[str]]:
    """Return the generated code that calls kernels, and the kernels that it launches."""
    done = ctrace("kernels", file, "--wrapper", *words, OPAQUE=opaque)
    assert done.code == 0, done.err
    return done.out, re.findall(r"(\w+)\.run\(", done.out)


def seen(ctrace: Command) -> Any:
    return json.loads((ctrace.folder / "seen.json").read_text())


@pytest.mark.long
def test_compiled_code_launches_the_kernels(ejected: tuple[Command, list[str]]):
    ctrace, words = ejected
    _, before = launches(ctrace, "model.py", words)
    code, after = launches(ctrace, "installed.py", words)
    found = seen(ctrace)
    assert len(found["operators"]) >= 3
    assert found["called"] == [None] * len(found["operators"])
    assert "torch.ops.ejected" not in code
    assert len(after) == len(before)  # no copy and no fill beside the kernels
    ours = [name for name in after if "_kernel_" in name]
    defined = [re.findall(r"(?m)^def \w+_kernel\(", each.read_text()) for each in ctrace.folder.glob("ops/*/kernel.py")]
    assert len(ours) == sum(map(len, defined))


@pytest.mark.long
def test_what_cannot_be_traced_stays_an_operator(ejected: tuple[Command, list[str]]):
    ctrace, words = ejected
    code, after = launches(ctrace, "installed.py", words, opaque="1")
    assert "torch.ops.ejected" in code
    assert not [name for name in after if "_kernel_" in name]
    assert {*seen(ctrace)["called"]} == {"torch cannot trace it: ValueError: not traceable"}


UUID = """
import importlib, os, sys
import torch._inductor.custom_graph_pass, triton
sys.path.insert(0, "ops")
for _ in sys.stdin:
    if not os.fork():
        print(importlib.import_module(sys.argv[1]).install().uuid(), flush=True)
        os._exit(0)
    os.wait()
"""
"""Answers each line with the uuid of the package as it is now, in a fork that has imported torch but not the package."""
HELPER = """
import triton
import triton.language as tl

@triton.jit
def helped(x):
    return x + 0
"""


@pytest.mark.long
def test_the_passs_uuid_follows_what_the_kernel_computes(ejected: tuple[Command, list[str]], tmp_path: Path):
    """Inductor's caches keep code with the kernel in it."""
    shutil.copytree(ejected[0].folder / "ops", tmp_path / "ops", ignore=shutil.ignore_patterns("__pycache__"))
    (file,) = tmp_path.glob("ops/*tanh*/kernel.py")
    changes = _changes(file)
    # Without -B, a file that changes within a second, and keeps its size, could be read from the bytecode of before.
    command = [sys.executable, "-B", "-c", UUID, file.parent.name]
    alone = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, input="\n").stdout
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        found = []
        for change in changes:
            change()
            process.stdin.write("\n")
            process.stdin.flush()
            found.append(process.stdout.readline())
    assert process.returncode == 0
    assert found[0] == alone
    assert len(set(found)) == len(changes) == 4


def _changes(file: Path) -> list[Callable[[], object]]:
    """Return what to do to a kernel, in this order: nothing, and three changes of what it computes."""
    helpers = file.parents[1] / "helpers.py"

    def warps() -> None:
        file.write_text(re.sub(r"num_warps=\d+", "num_warps=16", file.read_text()))

    def help_it() -> None:
        helpers.write_text(HELPER)
        text = file.read_text().replace("import triton\n", "import triton\nfrom helpers import helped\n", 1)
        file.write_text(re.sub(r"tl\.store\((.*), (\w+), ", r"tl.store(\1, helped(\2), ", text))
        assert "helped(" in file.read_text()

    return [lambda: None, warps, help_it, lambda: helpers.write_text(HELPER.replace("x + 0", "x + 1"))]
