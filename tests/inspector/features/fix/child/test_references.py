"""Calls of a changed target that are close to those of the unchanged one need no reference; others are judged by one."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.facts.trial import Entry, ProofRequest
from ctrace.inspector.features.fix.child import observed_calls
from ctrace.inspector.features.fix.child.observed_calls import Rounding, observe

MODEL = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout())
X = torch.ones(4, 3)


class Scaled(torch.nn.Module):
    """Multiplies what the model returns."""

    def __init__(self, by: float) -> None:
        super().__init__()
        self.model = copy.deepcopy(MODEL)
        self._by = by

    def forward(self, x: Any) -> Any:
        return self.model(x) * self._by


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which each call in another arithmetic is added."""
    found: list[str] = []
    again = observed_calls.References._again

    def noting(references: Any, arithmetic: Any) -> Any:
        found.append(type(arithmetic).__name__)
        return again(references, arithmetic)

    monkeypatch.setattr(observed_calls.References, "_again", noting)
    return found


def called(rounding: Rounding, by: float, x: Any = X, *, backward: bool = True) -> None:
    torch.manual_seed(0)
    observe(Scaled(by), Call((x.clone(),), {}), Entry("base"), rounding=rounding, backward=backward)


def judged(folder: Path, by: float, x: Any = X, *, backward: bool = True) -> Rounding:
    """Save the values of a model that scales by 1, and compare those of one that scales by another number."""
    called(Rounding(ProofRequest("", values=str(folder))), 1.0, x, backward=backward)
    rounding = Rounding(ProofRequest("", against=str(folder)))
    called(rounding, by, x, backward=backward)
    return rounding


@pytest.mark.parametrize("by", [1.0, 1 + 2**-22])
def test_close_values_need_no_reference(tmp_path: Path, made: list[str], by: float) -> None:
    found = judged(tmp_path, by)
    assert (found.compared, found.unexplained, made) == (1, [], [])


@pytest.mark.parametrize("backward", [True, False])
def test_other_values_are_judged_by_references_that_are_made_once(
    tmp_path: Path, made: list[str], backward: bool
) -> None:
    found = judged(tmp_path, 1.1, backward=backward)
    assert found.unexplained == ["base: value 0: it differs by more than rounding"]
    assert made == ["Float64", "Noisy", "Noisy"]


def test_a_sum_that_cancels_is_within_rounding(tmp_path: Path, made: list[str]) -> None:
    """It is not close, but the numbers that it is a sum of are rounded as much."""
    x = torch.tensor([[1e4, 0.1, 0.3], [-1e4, 0.7, 0.2]])

    class Summed(torch.nn.Module):
        def __init__(self, late: bool) -> None:
            super().__init__()
            self._late = late

        def forward(self, x: Any) -> Any:
            if self._late:
                return (x[0] + x[1]).sum()
            return (x[0, 0] + x[0, 1] + x[0, 2]) + (x[1, 0] + x[1, 1] + x[1, 2])

    observe(Summed(True), Call((x,), {}), Entry("base"), rounding=Rounding(ProofRequest("", values=str(tmp_path))))
    rounding = Rounding(ProofRequest("", against=str(tmp_path)))
    observe(Summed(False), Call((x,), {}), Entry("base"), rounding=rounding)
    assert rounding.unexplained == []
    assert made == ["Float64", "Noisy", "Noisy"]


def test_a_call_that_the_changed_target_did_not_return_from_is_not_compared(tmp_path: Path) -> None:
    rounding = Rounding(ProofRequest("", against=str(tmp_path)))
    called(rounding, 1.0)
    assert (rounding.compared, rounding.unexplained) == (0, [])


@pytest.mark.parametrize("number", [0, 1])
def test_each_call_has_values_of_its_own(tmp_path: Path, number: int) -> None:
    """After a call that raises comes another one of the same probe."""
    observe(Scaled(1.0), Call((X,), {}), Entry("base", 1), rounding=Rounding(ProofRequest("", values=str(tmp_path))))
    rounding = Rounding(ProofRequest("", against=str(tmp_path)))
    observe(Scaled(1.0), Call((X,), {}), Entry("base", number), rounding=rounding)
    assert rounding.compared == number
