"""Calls that begin alike share one reference for comparisons within rounding, and no others do."""

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


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which each call in another arithmetic is added."""
    found: list[str] = []
    again = observed_calls.Reference._again

    def noting(reference: Any, arithmetic: Any, gradients: Any) -> Any:
        found.append(type(arithmetic).__name__)
        return again(reference, arithmetic, gradients)

    monkeypatch.setattr(observed_calls.Reference, "_again", noting)
    return found


def kept(folder: Path, name: str) -> Any:
    return torch.load(folder / observed_calls._file_of(Entry(name)), weights_only=True)[1]


def test_equal_states_arguments_and_random_numbers_share_a_reference(tmp_path: Path, made: list[str]) -> None:
    rounding = Rounding(ProofRequest("", values=str(tmp_path)))
    # The first call in another arithmetic imports what sets a variable of the environment, which is state, too.
    observe(copy.deepcopy(MODEL), Call((X * 2,), {}), Entry("first"), rounding=rounding)
    made.clear()
    for name in ("base", "base, after train()"):
        torch.manual_seed(0)
        observe(copy.deepcopy(MODEL), Call((X.clone(),), {}), Entry(name), rounding=rounding)
    assert made == ["Float64", "Noisy", "Noisy"]
    assert kept(tmp_path, "base")[0] is not None
    assert str(kept(tmp_path, "base")) == str(kept(tmp_path, "base, after train()"))


@pytest.mark.parametrize("other", ["argument", "state", "mode", "random numbers", "no backward"])
def test_a_call_that_begins_in_another_way_has_its_own(tmp_path: Path, made: list[str], other: str) -> None:
    rounding = Rounding(ProofRequest("", values=str(tmp_path)))
    torch.manual_seed(0)
    observe(copy.deepcopy(MODEL), Call((X,), {}), Entry("base"), rounding=rounding)
    model: Any = copy.deepcopy(MODEL)
    x = X
    if other == "argument":
        x = X.double().float() * 2
    elif other == "state":
        torch.nn.init.ones_(model[0].bias)
    elif other == "mode":
        model.eval()
    torch.manual_seed(1 if other == "random numbers" else 0)
    observe(model, Call((x,), {}), Entry("other"), rounding=rounding, backward=other != "no backward")
    assert len(made) == 6
