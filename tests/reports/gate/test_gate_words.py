"""Sentences that all reports of a check share."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.errors import Exit
from ctrace.inspector.facts.findings import Cost
from ctrace.inspector.features.check.check_model import (
    EXITS,
    CheckedJob,
    CheckedState,
    FindingKind,
    GateFinding,
    JobKey,
)
from ctrace.inspector.features.check.policy_model import Count
from ctrace.reports.gate.gate_words import (
    GRAVEST_FIRST,
    KINDS,
    TITLES,
    VERDICTS,
    cost,
    gravest_first,
    numbers,
    sentence,
)
from ctrace.reports.gate.sarif import kind_rule
from tests.support import outcomes


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("holds", "Both models pass."),
        ("worse", "2 of 3 models got worse, 1 passes."),
        ("often", "The model got worse."),
        ("untrusted", "1 of 2 models has no trustworthy result, 1 passes."),
        ("failed", "4 of 6 models failed, 1 got worse, 1 passes."),
        ("wrong", "1 of 2 models cannot be checked, 1 passes. 1 problem with the policy or the lock."),
        ("nothing", "No model was checked."),
        ("many", "1 of 26 models got worse, 25 pass."),
    ],
)
def test_sentence(name: str, found: str) -> None:
    assert sentence(outcomes.ALL[name]) == found


def test_a_model_with_several_jobs_counts_once_as_its_gravest() -> None:
    failed = CheckedJob(JobKey("models/mask.py", "train"), None, (GateFinding(FindingKind.FAILED, "raises"),))
    assert sentence(outcomes.outcome(*outcomes.WORSE.checked, failed)) == "1 of 3 models failed, 1 got worse, 1 passes."


def test_every_exit_code_and_kind_has_its_words() -> None:
    for code in {*EXITS.values(), Exit.DONE}:
        assert VERDICTS[code]
        assert TITLES[code]
        assert code in GRAVEST_FIRST
    for kind in FindingKind:
        assert KINDS[kind]
        assert kind_rule(kind)["help"]["text"]


def test_the_gravest_is_first() -> None:
    exits = [one.exit for one in gravest_first(outcomes.FAILED)]
    assert exits == [Exit.PROGRAM] * 4 + [Exit.WORSE, Exit.DONE]


class TestCost:
    masked = next(one for one in outcomes.WORSE.checked if one.findings)

    def _cost(self, *, before: int | None = 2, now: int = 3, ops: int | None = 14, adds: int = 1) -> str:
        site = replace(outcomes.BRANCH, cost=Cost(ops, adds))
        state = CheckedState(self.masked.job, counts={Count.GRAPHS: now})
        finding = outcomes.new_site(site)
        return cost(finding, replace(self.masked, state=state, findings=(finding,), graphs_before=before))

    def test_one_break_that_explains_the_graphs_splits_them(self) -> None:
        assert self._cost() == "splits 2 graphs into 3, 14 ops now in eager"

    def test_otherwise_a_break_adds_graphs(self) -> None:
        assert self._cost(now=5) == "adds 1 graph, 14 ops now in eager"
        assert self._cost(before=None) == "adds 1 graph, 14 ops now in eager"

    def test_with_two_new_breaks_neither_splits_the_graphs_alone(self) -> None:
        two = replace(self.masked, findings=(outcomes.new_site(outcomes.BRANCH), outcomes.new_site(outcomes.PRINT)))
        assert cost(two.findings[0], two) == "adds 1 graph, 14 ops now in eager"

    def test_missing_measurements_are_reported(self) -> None:
        assert self._cost(ops=None) == "splits 2 graphs into 3, ops in eager not measured"

    def test_zero_costs_are_left_out(self) -> None:
        assert self._cost(ops=0, adds=0) == ""
        assert cost(outcomes.new_site(outcomes.RECOMPILE), None) == ""


@pytest.mark.parametrize(
    ("kind", "count", "was", "now", "found"),
    [
        (FindingKind.MORE_TIMES, None, 1.0, 3.0, "3 times now, 1 in the lock"),
        (FindingKind.MORE, Count.GRAPHS, 1.0, 3.0, "3 now, 1 in the lock"),
        (FindingKind.LIMIT, Count.BREAKS, 0.0, 2.0, "2 now, the limit is 0"),
        (FindingKind.LIMIT, None, 90.0, 71.44, "71.4% of the ops are in graphs, the minimum is 90%"),
        (FindingKind.LIMIT, None, None, 71.4, ""),
    ],
)
def test_numbers(kind: FindingKind, count: Count | None, was: float | None, now: float, found: str) -> None:
    assert numbers(GateFinding(kind, "x", count=count, was=was, now=now)) == found
