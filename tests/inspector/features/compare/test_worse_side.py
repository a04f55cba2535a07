"""Which of two runs is worse, from numbers that have a direction, and what is said about it."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.outcome import Failure, FailurePhase
from ctrace.inspector.facts.session import Coverage, Environment, Scenario, Session
from ctrace.inspector.features.compare.changes import DIFFERENT_CALLS, Direction, judge, without_direction
from ctrace.reports.wording.diff_wording import judged
from tests.support import sessions

HEALTHY, PARTIAL = sessions.ALL["healthy"], sessions.ALL["partial"]
FAILED = replace(HEALTHY, failure=Failure(FailurePhase.RUN, "ValueError", "no"))
CUT = replace(HEALTHY, failure=Failure(FailurePhase.TIMEOUT, "timeout", "it took too long"))
SAME_CALLS = replace(PARTIAL, scenarios=HEALTHY.scenarios)


def test_more_breaks_are_worse_and_graphs_are_named_beside_them():
    found = judge(HEALTHY, SAME_CALLS)
    assert found.direction is Direction.WORSE
    text = judged(found, "B")
    assert text.startswith("B is worse: ")
    assert "graph breaks 0 → 1" in text  # the other one is a disabled call
    assert judged(judge(SAME_CALLS, HEALTHY), "B").startswith("B is better: ")


def test_more_graphs_alone_are_not_worse():
    more = replace(HEALTHY, graphs=HEALTHY.graphs * 6)
    found = judge(HEALTHY, more)
    assert found.direction is Direction.SAME
    assert judged(found, "B").endswith("; graphs 1 → 6.")


def test_worse_and_better_is_neither():
    one = replace(HEALTHY, recompiles=(), coverage=Coverage(10, 5))
    other = replace(one, recompiles=PARTIAL.recompiles, coverage=Coverage(10, 10))
    found = judge(one, other)
    assert found.direction is Direction.MIXED
    assert "(recompilations 0 → " in judged(found, "B")
    assert "(ops outside of graphs 5 → 0)" in judged(found, "B")


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (HEALTHY, CUT, "the second run is incomplete"),
        (CUT, CUT, "both runs are incomplete"),
        (FAILED, FAILED, "both runs failed"),
        (HEALTHY, replace(PARTIAL, scenarios=(Scenario("other"),)), DIFFERENT_CALLS),
        (HEALTHY, replace(SAME_CALLS, environment=Environment()), "ctrace recorded only the first run"),
    ],
)
def test_runs_that_cannot_be_judged_say_why(before: Session, after: Session, why: str):
    found = judge(before, after)
    assert found.direction is Direction.UNKNOWN
    assert judged(found, "B").startswith(f"Neither run is called worse: {why}")


def test_a_run_that_fails_is_worse_and_has_no_other_numbers():
    found = judge(SAME_CALLS, FAILED)
    assert found.direction is Direction.WORSE
    assert judged(found, "B") == "B is worse: it fails with an error."


def test_numbers_that_were_not_measured_on_both_sides_are_not_compared():
    log = replace(HEALTHY, coverage=Coverage())
    assert "ops outside" not in judged(judge(HEALTHY, log), "B")


def test_other_options_of_the_calls_take_the_direction_away():
    found = without_direction(judge(HEALTHY, SAME_CALLS), DIFFERENT_CALLS)
    assert "worse: the runs made different calls (graph breaks 0 → " in judged(found, "B")
