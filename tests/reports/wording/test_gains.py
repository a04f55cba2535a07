"""What advice can gain stands beside it, where the run measured it."""

import pytest

from ctrace.inspector.facts.diagnosis import (
    Counts,
    Diagnosis,
    Effect,
    Finding,
    RootCause,
    RootCost,
    RootKind,
    Suggestion,
    Symptom,
)
from ctrace.reports.wording.diagnosis_wording import asks_nothing, at_stake, saved

CAUSE = RootCause(
    "1",
    next(iter(RootKind)),
    "x.size(0) changed",
    None,
    None,
    None,
    (Symptom(Finding.RECOMPILE),),
    RootCost(seconds=4.2),
)
FOUND = Diagnosis((CAUSE,))


def test_untried_advice_names_what_its_causes_cost() -> None:
    assert at_stake(Suggestion("Pad x.", ("1",)), FOUND) == "at stake: 1 recompilation, 4.2 s of compile time"


def test_nothing_is_claimed_without_a_measured_time() -> None:
    unknown = Diagnosis((RootCause("1", CAUSE.kind, "", None, None, None, CAUSE.symptoms),))
    assert at_stake(Suggestion("Pad x.", ("1",)), unknown) == ""
    assert at_stake(Suggestion("Pad x.", ("2",)), FOUND) == ""


def test_tried_advice_names_the_time_of_the_recompilations_that_it_removes() -> None:
    gone = Effect(Counts(graphs=2, breaks=0, recompiles=1), Counts(graphs=1, breaks=0, recompiles=0))
    some = Effect(Counts(graphs=3, breaks=0, recompiles=2), Counts(graphs=2, breaks=0, recompiles=1))
    assert saved(Suggestion("Pad x.", ("1",), True, gone), FOUND) == "the recompilation took 4.2 s"
    assert saved(Suggestion("Pad x.", ("1",), True, some), FOUND) == ""
    both = Effect(Counts(graphs=3, breaks=0, recompiles=2), Counts(graphs=1, breaks=0, recompiles=0))
    assert saved(Suggestion("Pad x.", ("1",), True, both), FOUND) == "the recompilations took 4.2 s"


@pytest.mark.parametrize(
    ("text", "is_nothing"),
    [
        ("Nothing to fix.", True),
        ("net.py:3: Nothing to change: a prompt and single tokens need one graph each.", True),
        ("Nothing to change if you need both; or pass a tensor.", False),
        ("net.py:3: keep the count in a buffer.", False),
    ],
)
def test_nothing_to_change_is_told_from_what_asks_for_a_decision(text: str, is_nothing: bool) -> None:
    assert asks_nothing(Suggestion(text)) is is_nothing
