"""ctrace checks advice on a real model by running it, without changing the file."""

from typing import Any

import pytest

from tests.integration.conftest import Command

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


def explained(ctrace: Command, *options: str) -> Any:
    ctrace.write("model.py", MODEL)
    return ctrace("explain", "model.py", *options, "--json").report


@pytest.mark.integration
def test_prints_have_one_cause_and_checked_advice(ctrace: Command) -> None:
    report = explained(ctrace)
    (cause,) = report["causes"]
    assert cause["kind"] == "output"
    assert len([each for each in cause["symptoms"] if each["what"] == "break"]) == len(report["breaks"])
    best = report["advice"][0]
    assert (best["checked"], best["causes"]) == (True, [cause["id"]])
    assert best["effect"]["graphs"] == [0, 1]
    assert best["effect"]["breaks"][1] == 0
    assert (ctrace.folder / "model.py").read_text() == MODEL


@pytest.mark.integration
def test_fast_runs_only_dynamo(ctrace: Command) -> None:
    report = explained(ctrace, "--fast")
    assert report["breaks"]
    assert report["kernels"] == []
    assert report["environment"]["fast"] is True
    assert "kernels" in report["environment"]["not_looked_at"]
    assert report["time"]["advice"] is None
    assert set(report["time"]["phases"]) == {"dynamo", "backend"}
