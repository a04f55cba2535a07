"""Dumped files of real runs on the CPU: each runs, and each wrapper returns the graph's eager results."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import Command
from tests.integration.dumping import dumped, run, run_all, wrappers
from tests.support.places import ROOT

pytestmark = pytest.mark.integration

SAMPLES = ROOT / "sample_models"

DYNAMIC = """
import torch

def model(x, table, at):
    return torch.softmax(x * 2, -1).sum(0), table[at] + x.mean(), torch.nn.functional.dropout(x, 0.5)

def inputs():
    return torch.rand(7, 33), torch.rand(50, 8), torch.randint(50, (12,))
"""


SMALL = """
import torch

def model(x):
    return torch.softmax(x.sin(), -1)

def inputs():
    return (torch.rand(8, 16),)
"""


@pytest.mark.slow
def test_the_files_of_a_small_model_run_and_match(ctrace: Command):
    made = dumped(ctrace, str(ctrace.write("small.py", SMALL)))
    assert made.left_out == ()
    ran = run_all(ctrace, made)
    assert [": matches eager" in each.out for each in wrappers(ran)] == [True]
    assert {each.code for each in ran} == {0}


@pytest.mark.timeout(900)
@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [("attention.py",), ("mlp.py",), ("embedding_loss.py", "--train")],
    ids=["attention", "mlp", "embedding_loss"],
)
def test_all_files_run_and_match(ctrace: Command, words: tuple[str, ...]):
    made = dumped(ctrace, str(SAMPLES / words[0]), *words[1:])
    assert made.left_out == ()
    ran = run_all(ctrace, made)
    assert len(wrappers(ran)) == len(made.parts) == len(words)
    for each in wrappers(ran):
        assert ": matches eager" in each.out
        assert "not comparable" not in each.out
        assert "no value of the graph" not in each.out
    for each in ran:
        assert re.search(r"median [\d.]+ µs of \d+ (runs|calls) on cpu", each.out)


@pytest.mark.timeout(900)
@pytest.mark.slow
def test_the_wrapper_runs_a_changed_kernel(ctrace: Command):
    made = dumped(ctrace, str(SAMPLES / "mlp.py"))
    file = next(path for path in made.files if path.name.startswith("cpp_fused_gelu"))
    text = file.read_text(encoding="utf-8")
    assert "0.5" in text
    file.write_text(text.replace("static_cast<float>(0.5)", "static_cast<float>(0.75)"), encoding="utf-8")
    ran = run(ctrace, file.with_name("wrapper.py"))
    assert ran.code == 1, ran.err
    assert "more than rounding explains" in ran.out
    assert re.search(r"cpp_fused_gelu_1 +buf6 +no value of the graph", ran.out)


@pytest.mark.timeout(900)
@pytest.mark.slow
def test_dynamic_sizes_indices_and_random_numbers(ctrace: Command):
    made = dumped(ctrace, str(ctrace.write("m.py", DYNAMIC)), "--dynamic")
    assert made.left_out == ()
    ran = run_all(ctrace, made)
    assert "random numbers" in wrappers(ran)[0].out
    assert ": matches eager" in wrappers(ran)[0].out


GPU_CODE = sorted((ROOT / "tests" / "data" / "code").glob("*.txt"))
IMPORT_ALL = """
import importlib.util, pathlib, sys
if sys.argv[2] == "no":
    sys.modules["triton"] = None
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.py")):
    spec = importlib.util.spec_from_file_location("dumped", path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
"""


@pytest.mark.slow
@pytest.mark.parametrize("triton", ["yes", "no"])
def test_gpu_files_import_without_a_gpu(ctrace: Command, triton: str):
    import torch

    from ctrace.inspector.facts.kernel_facts import OutputCode, Stage
    from ctrace.inspector.facts.session import Session
    from ctrace.reports.dump.dumping import dump

    code = tuple(OutputCode(f"{at}/0", Stage.FORWARD, path.read_text()) for at, path in enumerate(GPU_CODE))
    made = dump(Session(code=code), ctrace.folder / "dump")
    loaded = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, str(made.folder), triton], capture_output=True, text=True, check=False
    )
    assert loaded.returncode == 0, loaded.stderr
    if torch.cuda.is_available():
        return
    for name in ("bmm.py", "wrapper.py", "triton_per_fused_amax_div_exp_mul_sub_sum_0.py"):
        ran = run(ctrace, Path(made.folder) / "0_0-forward" / name)
        assert ran.code == 2
        assert ran.err.splitlines() == [
            "error: this needs the device cuda:0, and torch sees no such device here",
            "do: run it on a machine with one",
        ]
