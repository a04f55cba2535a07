"""Comparisons of any two sessions: a session equals itself, and both directions find the same changes."""

import hashlib
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.guard_facts import Guard
from ctrace.inspector.facts.session import PhaseTimes, Session
from ctrace.inspector.features.compare.changes import Change, ChangeKind, DiffDocument, What
from ctrace.inspector.features.compare.compare_runs import compare, content, counts, without_module
from ctrace.inspector.runs import load as loading
from ctrace.inspector.runs.load import load_log
from ctrace.reports.json.printer import render
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
from tests.support.helpers import Log as PlainLog
from tests.support.places import DATA
from tests.support.sampling import sampled

LOGS = sorted(DATA.glob("*.log"))
HANDMADE = {
    f"{module.__name__}.{name}": value
    for module in (built, fusions, guarded, kernelsessions, recompiled, sessions, targeted, userkernels)
    for name, value in vars(module).items()
    if isinstance(value, Session) and all((each.break_index or 0) < max(len(value.breaks), 1) for each in value.skips)
} | sessions.ALL
OTHER_WAY = {
    ChangeKind.ADDED: ChangeKind.REMOVED,
    ChangeKind.REMOVED: ChangeKind.ADDED,
    ChangeKind.CHANGED: ChangeKind.CHANGED,
}


@pytest.mark.parametrize("log", sampled(LOGS), ids=lambda log: log.stem)
def test_recorded_log_equals_itself(log: Path):
    assert compare(load_log(log), load_log(log)).changes == ()


@pytest.mark.parametrize("name", sampled(HANDMADE))
def test_handmade_session_equals_itself(name: str):
    assert compare(HANDMADE[name], HANDMADE[name]).changes == ()


@pytest.mark.parametrize("log", sampled(LOGS), ids=lambda log: log.stem)
def test_both_directions_find_the_same_sites(log: Path):
    one, other = load_log(log), load_log(DATA / "break_paths.log")
    there, back = counts(compare(one, other).changes), counts(compare(other, one).changes)
    for what in (What.BREAK, What.SKIP, What.VERDICT):
        mirrored = {OTHER_WAY[how]: number for how, number in back.get(what, {}).items()}
        assert there.get(what, {}) == mirrored


@pytest.mark.parametrize("name", sampled(HANDMADE))
def test_any_two_sessions_can_be_compared(name: str):
    found = compare(HANDMADE[name], sessions.HOSTILE)
    assert json.loads(render(DiffDocument("a", "b", found)))["equal"] == (not found.changes)


def with_time(seconds: float) -> Session:
    return replace(sessions.ALL["healthy"], time=PhaseTimes(seconds, {"inductor": seconds}))


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


def key(**texts: str) -> dict[str, object]:
    lines = [f"[{hashlib.sha256(text.encode()).hexdigest()[:20]}] {name}: {text}" for name, text in texts.items()]
    return {"key": str(sorted(texts.items())), "components": lines}


def session(folder: Path, *lookups: tuple[str, dict[str, object]]) -> Session:
    import json

    log = PlainLog().compiled("0/0")
    for name, payload in lookups:
        log.record("artifact", {"name": name, "encoding": "json"}, at="0/0", payload=json.dumps(payload))
    path = folder / f"{len(list(folder.iterdir()))}.log"
    path.write_text(log.text, encoding="utf-8")
    return load_log(path)


def changes(before: Session, after: Session) -> list[Change]:
    return [each for each in compare(before, after).changes if each.what is What.CACHE]


@pytest.fixture(params=[1, 1 << 40], ids=["large", "small"], autouse=True)
def least(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Components of a large log stay in it."""
    monkeypatch.setattr(loading, "_LARGE", request.param)


def test_equal_outcomes_are_no_change(tmp_path: Path):
    found = [("fx_graph_cache_hit", key(gm="a")), ("aotautograd_cache_miss", key(gm="a"))]
    before, after = session(tmp_path, *found), session(tmp_path, *found)
    assert changes(before, after) == []
    assert What.CACHE in compare(before, after).compared


def test_a_hit_that_became_a_miss_names_the_components(tmp_path: Path):
    before = session(tmp_path, ("fx_graph_cache_hit", key(gm="same", inductor_config="a=1")))
    after = session(tmp_path, ("fx_graph_cache_miss", key(gm="same", inductor_config="a=2")))
    (change,) = changes(before, after)
    assert (change.how, change.was, change.now) == (ChangeKind.CHANGED, "hit", "miss")
    assert change.where.endswith(": fx_graph")
    assert change.detail == ("inductor_config: a=1, then a=2",)


def test_another_key_with_the_same_outcome_is_no_change(tmp_path: Path):
    before, after = (session(tmp_path, ("fx_graph_cache_miss", key(gm=text))) for text in "ab")
    assert changes(before, after) == []


def test_another_reason_to_bypass_is_a_change(tmp_path: Path):
    before, after = (
        session(tmp_path, ("fx_graph_cache_bypass", {"cache_bypass_reason": reason})) for reason in ("one", "two")
    )
    (change,) = changes(before, after)
    assert (change.was, change.now, change.detail) == ("bypass (one)", "bypass (two)", ())


def test_a_second_look_up_is_added(tmp_path: Path):
    one = ("fx_graph_cache_miss", key(gm="a"))
    (change,) = changes(session(tmp_path, one), session(tmp_path, one, one))
    assert (change.how, change.where.partition(": ")[2], change.now) == (ChangeKind.ADDED, "fx_graph look-up 2", "miss")


def test_without_look_ups_in_one_log_nothing_is_compared(tmp_path: Path):
    found = compare(session(tmp_path), session(tmp_path, ("fx_graph_cache_miss", key(gm="a"))))
    assert not [each for each in found.changes if each.what is What.CACHE]
    assert dict(found.not_compared)[What.CACHE].startswith("the first run recorded no look-ups")


@pytest.mark.parametrize(
    ("what", "same"),
    [
        ("<module 'torch' from '{}/torch/__init__.py'>", "<module 'torch'>"),
        (
            '<code object linear at 0x7f00{}, file "{}/torch/nn/functional.py", line {}>',
            '<code object linear at #, file "functional.py", line #>',
        ),
    ],
)
def test_where_code_lies_is_no_difference_of_its_guard(what: str, same: str) -> None:
    places = ("/one", "11", 9), ("/two/b", "22", 7)
    texts = [what.format(folder) if what[1] == "m" else what.format(at, folder, line) for folder, at, line in places]
    for text in texts:
        code = f"___check_obj_id(G['torch'], 140187022180192), type={text}"
        assert content(Guard("ID_MATCH", code, "G['torch']")) == f"___check_obj_id(G['torch'], #), type={same}"


@pytest.mark.parametrize(
    ("code", "file", "found"),
    [
        ("f(L['self'], 7), type=<class 'net.Net'>", "src/net.py", "f(L['self'], 7), type=<class 'Net'>"),
        ("f(L['self'], 7), type=<class 'pkg.net.Net'>", "src/pkg/net.py", "f(L['self'], 7), type=<class 'Net'>"),
        ("type=<class 'net.Net'>", "net_2.py", "type=<class 'net.Net'>"),
        (
            "type=<class 'torch.nn.modules.linear.Linear'>",
            "linear_2.py",
            "type=<class 'torch.nn.modules.linear.Linear'>",
        ),
        ("type=<class 'timm.net.Net'>", "src/mylib/net.py", "type=<class 'timm.net.Net'>"),
        ("G['net.Net']", "net.py", "G['net.Net']"),
    ],
)
def test_class_of_the_functions_own_file_has_no_module(code: str, file: str, found: str) -> None:
    assert without_module(code, file) == found
