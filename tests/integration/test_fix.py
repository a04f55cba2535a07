"""Repairs of real models: proved, applied and taken back."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.integration

BRANCH = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        h = self.linear(x)  # a comment that stays
        if h.sum() > 0:
            y = h * 2
        else:
            y = h * 3
        return y


model = Net()


def inputs():
    return (torch.randn(6, 4),)
"""
RANDOM = BRANCH.replace("import torch\n", "import os\n\nimport torch\n", 1).replace(
    "model = Net()", "model = Net()\nmodel.linear.weight.data.mul_(1 + os.urandom(1)[0] + os.urandom(1)[0] / 256)"
)
PROGRAM = """\
import torch


@torch.compile(backend="eager")
def f(x):
    s = x.abs().max().item()
    return x / s


f(torch.randn(8))
f(torch.randn(8))
"""


def ctrace(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "ctrace", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=290)


def fixed(folder: Path, text: str, *words: str) -> dict[str, Any]:
    (folder / "net.py").write_text(text)
    ran = ctrace(folder, "fix", "net.py", "--json", "--no-build", *words)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def test_a_branch_is_repaired_applied_and_restored(tmp_path: Path):
    found = fixed(tmp_path, BRANCH, "--apply")
    (cause,) = [each for each in found["findings"] if each["kind"] == "tensor_branch"]
    best = found["repairs"][0]
    assert (best["proved"], best["finding"], best["kind"]) == (True, cause["id"], "source")
    assert {"both_sides", "outputs_equal", "gradients_equal", "compiled_equal", "finding_gone"} <= {
        each["name"] for each in best["checks"] if each["passed"]
    }
    assert found["combined"]["effect"]["breaks"] == [1, 0]
    changed = (tmp_path / "net.py").read_text()
    assert "torch.where" in changed
    assert "# a comment that stays" in changed
    assert ctrace(tmp_path, "fix", "--undo").returncode == 0
    assert (tmp_path / "net.py").read_text() == BRANCH


def test_a_model_that_is_not_deterministic_proves_nothing(tmp_path: Path):
    found = fixed(tmp_path, RANDOM)
    assert "two eager runs with the same seeds differ" in found["unstable"]
    assert not any(each["proved"] for each in found["repairs"])
    assert found["combined"] is None


def test_a_program_is_repaired(tmp_path: Path):
    found = fixed(tmp_path, PROGRAM)
    assert any(each["proved"] and each["kind"] == "source" for each in found["repairs"])
    assert (tmp_path / "net.py").read_text() == PROGRAM


def test_a_budget_ends_the_search(tmp_path: Path):
    found = fixed(tmp_path, BRANCH, "--budget", "1s")
    assert found["budget_spent"] or found["combined"] is not None or found["unstable"]
