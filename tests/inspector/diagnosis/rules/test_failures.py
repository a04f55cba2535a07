"""Advice on code that works in eager, and raises when it is compiled."""

import pytest

from ctrace.inspector.diagnosis.advise import diagnose, planned
from ctrace.inspector.facts.diagnosis import Counts
from ctrace.inspector.facts.scenarios import Outcome
from ctrace.inspector.facts.session import Failure, FailurePhase, Scenario, Session
from ctrace.inspector.facts.trial import Tried

FILE = "/home/user/model.py"
TEXT = "import torch\n\n\ndef forward(self, x, index):\n    {}\n    return x\n"
BYTES = "got RuntimeError('tensors used as indices must be long, int, byte or bool tensors'), dtype=torch.uint8)"


def failed(statement: str, message: str = "got RuntimeError('no such size')") -> Session:
    failure = Failure(FailurePhase.RUN, "TorchRuntimeError", message, FILE, 5)
    scenarios = (Scenario("base", calls=1, outcome=Outcome.COMPILE_FAILED),)
    return Session(failure=failure, scenarios=scenarios, listings={FILE: TEXT.format(statement)})


def changed(found: Session) -> list[str]:
    return [each.trial.edits[0].text.strip() for each in planned(found) if each.trial is not None]


@pytest.mark.parametrize(
    ("statement", "line"),
    [
        ("y = x.expand(3)", "y = torch.compiler.disable(lambda: x.expand(3))()"),
        ("self.y = x + 1", "self.y = torch.compiler.disable(lambda: x + 1)()"),
        ("return x[index]", "return torch.compiler.disable(lambda: x[index])()"),
        ("x[..., 0] = x.sum()", "torch.compiler.disable(lambda: x.__setitem__((..., 0), x.sum()))()"),
        ("x[index] = 1", "torch.compiler.disable(lambda: x.__setitem__(index, 1))()"),
    ],
)
def test_a_statement_that_raises_is_tried_in_eager(statement: str, line: str) -> None:
    assert changed(failed(statement)) == [line]


@pytest.mark.parametrize(
    "statement",
    ["x[0:1] = 1", "x += 1", "y = super().forward(x)", "y = (z := x + 1) * z"],
)
def test_what_means_something_else_in_a_lambda_stays(statement: str) -> None:
    assert changed(failed(statement)) == []


def test_a_mask_of_bytes_becomes_one_of_booleans() -> None:
    assert changed(failed("x[index] = x[index] * 2", BYTES))[0] == "x[index.bool()] = x[index.bool()] * 2"
    assert not any(".bool()" in each for each in changed(failed("x[index] = 2")))


def test_a_line_that_raises_in_eager_too_is_not_to_be_moved_there() -> None:
    found = failed("y = x.expand(3)")
    assert "Move the line" in diagnose(found).advice[0].text
    (candidate,) = planned(found)
    assert candidate.trial is not None
    refuted = Tried(candidate.trial, None, 1.0, error="RuntimeError")
    text = diagnose(
        Session(failure=found.failure, scenarios=found.scenarios, listings=found.listings, trials=(refuted,))
    )
    assert "Not known what to change" in text.advice[0].text
    helped = Tried(candidate.trial, Counts(2, 1, 0), 1.0)
    best = diagnose(
        Session(failure=found.failure, scenarios=found.scenarios, listings=found.listings, trials=(helped,))
    ).advice[0]
    assert best.checked
    assert "torch.compiler.disable(lambda: x.expand(3))()" in best.text
