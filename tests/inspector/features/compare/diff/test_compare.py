"""Comparisons of any two sessions: a session equals itself, and both directions find the same changes."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.session import Session, Time
from ctrace.inspector.features.compare.diff.changes import How, What
from ctrace.inspector.features.compare.diff.compare import compare, counts
from ctrace.inspector.runs.load import load_log
from ctrace.reports.json.diff import render_diff_json
from tests.support import (
    built,
    fusions,
    guarded,
    kernelsessions,
    recompiled,
    sessions,
    targeted,
    userkernels,
)
from tests.support.places import DATA

LOGS = sorted(DATA.glob("*.log"))
HANDMADE = {
    f"{module.__name__}.{name}": value
    for module in (built, fusions, guarded, kernelsessions, recompiled, sessions, targeted, userkernels)
    for name, value in vars(module).items()
    if isinstance(value, Session) and all((each.break_index or 0) < max(len(value.breaks), 1) for each in value.skips)
} | sessions.ALL
OTHER_WAY = {How.ADDED: How.REMOVED, How.REMOVED: How.ADDED, How.CHANGED: How.CHANGED}


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_recorded_log_equals_itself(log: Path):
    assert compare(load_log(log), load_log(log)).changes == ()


@pytest.mark.parametrize("name", HANDMADE)
def test_handmade_session_equals_itself(name: str):
    assert compare(HANDMADE[name], HANDMADE[name]).changes == ()


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_both_directions_find_the_same_sites(log: Path):
    one, other = load_log(log), load_log(DATA / "break_paths.log")
    there, back = counts(compare(one, other).changes), counts(compare(other, one).changes)
    for what in (What.BREAK, What.SKIP, What.VERDICT):
        mirrored = {OTHER_WAY[how]: number for how, number in back.get(what, {}).items()}
        assert there.get(what, {}) == mirrored


@pytest.mark.parametrize("name", HANDMADE)
def test_any_two_sessions_can_be_compared(name: str):
    found = compare(HANDMADE[name], sessions.HOSTILE)
    assert json.loads(render_diff_json("a", "b", found))["equal"] == (not found.changes)


def with_time(seconds: float) -> Session:
    return replace(sessions.ALL["healthy"], time=Time(seconds, {"inductor": seconds}))


@pytest.mark.parametrize(
    ("was", "now", "is_change"),
    [(2.6, 6.8, False), (1.0, 9.0, False), (20.0, 60.0, False), (2.0, 40.0, True), (100.0, 4.0, True)],
)
def test_only_times_far_beyond_noise_are_changes(was: float, now: float, is_change: bool):
    found = compare(with_time(was), with_time(now))
    assert [each.what for each in found.changes] == [What.TIME] * is_change


def test_verdict_and_coverage_are_compared():
    healthy, partial = sessions.ALL["healthy"], sessions.ALL["partial"]
    kinds = {each.what for each in compare(healthy, partial).changes}
    assert {What.VERDICT, What.COVERAGE} <= kinds


def test_other_torch_is_a_note_and_no_change():
    healthy = sessions.ALL["healthy"]
    newer = replace(healthy, environment=replace(healthy.environment, torch="2.15.0"))
    found = compare(healthy, newer)
    assert found.equal
    assert any(note.startswith("torch: ") and note.endswith("2.15.0") for note in found.notes)
