"""A cost of guards counts as changed only if it is in each run."""

from types import SimpleNamespace
from typing import Any

import pytest

from ctrace.inspector.features.upgrade.environment_runs import ModelRun, guard_cost_changes
from ctrace.inspector.features.upgrade.upgrade_search import _ModelComparison


def session(cost: float | None) -> Any:
    timed = None if cost is None else SimpleNamespace(warm=cost)
    return SimpleNamespace(guards={0: SimpleNamespace(cost=timed)})


def shown(before: list[float | None], after: list[float | None]) -> list[tuple[str | None, str | None]]:
    changes = guard_cost_changes([session(each) for each in before], [session(each) for each in after])
    return [(each.was, each.now) for each in changes]


def test_of_several_runs_the_least_cost_counts() -> None:
    assert shown([2.0], [14.7]) == [("2.0 us", "14.7 us")]
    assert shown([2.0, 2.1], [14.7, 2.2]) == []
    assert shown([40.0, 30.0], [3.0, 4.0]) == [("30.0 us", "3.0 us")]
    assert shown([None], [14.7]) == []
    assert shown([2.0], [11.0]) == []


@pytest.mark.parametrize(("again", "expected"), [(15.0, 1), (2.5, 0)])
def test_a_change_is_measured_again(again: float, expected: int) -> None:
    """At a load of six, guards of 2 us were measured once at 15."""
    comparison: Any = object.__new__(_ModelComparison)
    comparison._before = ModelRun(session(2.0), 0)
    comparison._both = SimpleNamespace(before="before", after="after")
    comparison._measured = None
    ran = {"before": session(2.1), "after": session(again)}
    comparison._ran = lambda side, _options: ModelRun(ran[side], 0)
    assert len(list(comparison._guard_costs(ModelRun(session(14.7), 0)))) == expected
    comparison._ran = None  # an equal cost needs no other run
    assert list(comparison._guard_costs(ModelRun(session(2.3), 0))) == []
