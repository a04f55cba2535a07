"""Real findings cut to small programs, which plain Python then runs."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Command

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]

NET = """\
\"\"\"A model with a lot around its finding.\"\"\"
import math

import torch
from torch import Tensor, nn

from helper import scaled

BATCH, WIDTH = 8, 32


class Unused(nn.Module):
    def forward(self, x):
        return x * math.pi


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.linear(x)
        FINDING
        return scaled(hidden).relu()


def model() -> nn.Module:
    return Net(WIDTH).eval()


def inputs() -> tuple[Tensor]:
    return (torch.rand(BATCH, WIDTH),)
"""
HELPER = """\
def scaled(x):
    return x * 2
"""
BATCHES = NET.replace("        FINDING\n", "") + 'scenarios = {"more": lambda: (torch.rand(12, WIDTH),)}\n'
DTYPES = (
    NET.replace("        FINDING\n", "").replace("def model", "def unused")
    + """
def model(): return lambda x: x.sin() * 2
scenarios = {"double": lambda: (torch.rand(BATCH, WIDTH, dtype=torch.float64),)}
"""
)
PROGRAM = """\
import torch

@torch.compile
def f(x, y):
    z = x * 3
    print(z.shape)
    return z + y

if __name__ == "__main__":
    for size in (3, 4):
        f(torch.randn(size, 2), 1)
"""
CRASH = """\
import torch

class Op(torch.nn.Module):
    def forward(self, x):
        y = torch.ops.repro_test.double(x)
        return y + x.sin()

@torch.library.custom_op("repro_test::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2

model = torch.compile(Op(), backend="eager", fullgraph=True)
model(torch.randn(6, 6))
"""
CASES = {
    "branch": (NET.replace("FINDING", "if hidden.sum() > 0:\n            hidden = hidden + 1"), ["GB0170"], 9),
    "print": (NET.replace("FINDING", "print('norm', hidden.norm())"), ["GB0059"], 8),
    "nonzero": (NET.replace("FINDING", "hidden = hidden[hidden.sum(1).nonzero()]"), ["GB0036"], 12),
    "disabled": (NET.replace("FINDING", "torch._dynamo.graph_break()"), ["GB0025"], 8),
    "counter": (
        NET.replace("FINDING", "self.calls += 1\n        hidden = hidden + self.calls"),
        ["attribute_value"],
        20,
    ),
    "batches": (BATCHES, ["size"], 12),
    "dtypes": (DTYPES, ["dtype"], 10),
    "program": (PROGRAM, ["GB0059"], 8),
    "crash": (CRASH, ["TorchRuntimeError", "Unsupported"], 16),
}


def reproduced(ctrace: Command, text: str) -> dict[str, Any]:
    ctrace.write("net.py", text)
    ctrace.write("helper.py", HELPER)
    ran = ctrace("repro", "net.py", "--json", "--budget", "240s", timeout=600)
    assert ran.code == 0, ran.err
    found: dict[str, Any] = ran.report
    return found


def in_plain_python(folder: Path, text: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    alone = folder / "alone"
    alone.mkdir(exist_ok=True)
    (alone / "repro.py").write_text(text)
    return subprocess.run(
        [sys.executable, "repro.py"], cwd=alone, capture_output=True, text=True, check=False, timeout=300,
        env=os.environ | variables,
    )  # fmt: skip


QUICK = {"print", "counter"}


@pytest.mark.long
@pytest.mark.parametrize(
    "case", [case if case in QUICK else pytest.param(case, marks=pytest.mark.slow) for case in CASES]
)
def test_a_small_program_shows_the_same_finding(ctrace: Command, case: str):
    text, ids, most_lines = CASES[case]
    found = reproduced(ctrace, text)
    assert set(found["finding"]["ids"]) & set(ids)
    assert found["lines"] <= most_lines, found["program"]
    program = found["program"]
    assert "ctrace" not in program
    assert str(ctrace.folder) not in program
    ran = in_plain_python(ctrace.folder, program, TORCH_LOGS="graph_breaks,recompiles")
    if found["finding"]["what"] == "break":
        assert ids[0].lower() in ran.stderr
        assert re.search(rf"repro\.py\"?(?:, line |:){found['line']}\b", ran.stderr)
        assert "# <- graph break" in program.splitlines()[found["line"] - 1]
    elif found["finding"]["what"] == "recompile":
        assert "Recompiling function" in ran.stderr
    else:
        assert ran.returncode
    eager = "import torch\ntorch.compiler.set_stance('force_eager')\n"
    assert in_plain_python(ctrace.folder, eager + program).returncode == 0


@pytest.mark.long
def test_a_finding_of_the_last_run_by_its_line(ctrace: Command):
    ctrace.write("net.py", CASES["branch"][0])
    ctrace.write("helper.py", HELPER)
    assert ctrace("explain", "net.py", "--fast").code == 0
    ran = ctrace("repro", "net.py:25", "--issue", "--budget", "5s", "-o", "issue.md")
    assert ran.code == 0, ran.err
    issue = (ctrace.folder / "issue.md").read_text()
    assert issue.startswith("# torch.compile: graph break: ")
    assert "shows GB0170" in ran.err
    wrong = ctrace("repro", "net.py", "tensor_branch-0")
    assert (wrong.code, len(wrong.err.strip().splitlines()[-2:])) == (2, 2)
    assert "did you mean tensor_branch-" in wrong.err
