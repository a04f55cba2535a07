"""The oracle of the trap programs tells what differs, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ORACLE = Path(__file__).parents[2] / "tools" / "trap_oracle.py"
PROGRAM = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(3.0), requires_grad=False)

    def forward(self, x):
        {line}


def inputs():
    return (torch.arange(4.0),)
"""


def apart(folder: Path, before: str, after: str) -> list[str]:
    """Ask the oracle about two lines."""
    files = [folder / "before.py", folder / "after.py"]
    for file, line in zip(files, (before, after), strict=True):
        file.write_text(PROGRAM.format(line=line))
    ran = subprocess.run([sys.executable, ORACLE, *files], capture_output=True, text=True, check=False)
    assert ran.returncode == bool(ran.stdout), ran.stderr
    return ran.stdout.splitlines()


def test_a_warning_that_torch_gives_once_in_a_process_is_no_difference(tmp_path: Path):
    assert apart(tmp_path, "return x * float(self.scale)", "return float(self.scale) * x") == []


def test_a_gradient_that_is_lost_is_a_difference(tmp_path: Path):
    assert "checkpoint with 3.6" not in apart(tmp_path, "return x * self.scale", "return x * self.scale.detach()")
    assert "all trained" in apart(tmp_path, "return x * self.scale", "return x * self.scale.detach()")
