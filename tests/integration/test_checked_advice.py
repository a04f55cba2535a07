"""ctrace checks advice on a real model by running it, without changing the file."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

MODEL = """import torch


class Net(torch.nn.Module):
    def forward(self, x):
        for _ in range(2):
            x = x.sin() + 1
            print("round")
        return x.cos() * 2


model = Net()
inputs = (torch.randn(4, 8),)
"""


def explained(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "model.py").write_text(MODEL)
    command = [sys.executable, "-m", "ctrace", "explain", "model.py", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=280)


@pytest.mark.integration
def test_prints_have_one_cause_and_checked_advice(tmp_path: Path) -> None:
    report = json.loads(explained(tmp_path, "--json").stdout)
    (cause,) = report["causes"]
    assert cause["kind"] == "output"
    assert len([each for each in cause["symptoms"] if each["what"] == "break"]) == len(report["breaks"])
    best = report["advice"][0]
    assert (best["checked"], best["causes"]) == (True, [cause["id"]])
    assert best["effect"]["graphs"] == [0, 1]
    assert best["effect"]["breaks"][1] == 0
    assert (tmp_path / "model.py").read_text() == MODEL


@pytest.mark.integration
def test_fast_runs_only_dynamo(tmp_path: Path) -> None:
    report = json.loads(explained(tmp_path, "--fast", "--json").stdout)
    assert report["breaks"]
    assert report["kernels"] == []
    assert report["environment"]["fast"] is True
    assert "kernels" in report["environment"]["not_looked_at"]
    assert report["time"]["advice"] is None
    assert set(report["time"]["phases"]) == {"dynamo", "backend"}
