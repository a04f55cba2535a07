"""What torch's caches returned, compared for matched graphs."""

import hashlib
from pathlib import Path

import pytest

from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.compare.diff.changes import Change, How, What
from ctrace.inspector.features.compare.diff.compare import compare
from ctrace.inspector.runs import load as loading
from ctrace.inspector.runs.load import load_log
from tests.support.helpers import Log as PlainLog


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
    assert (change.how, change.was, change.now) == (How.CHANGED, "hit", "miss")
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
    assert (change.how, change.where.partition(": ")[2], change.now) == (How.ADDED, "fx_graph look-up 2", "miss")


def test_without_look_ups_in_one_log_nothing_is_compared(tmp_path: Path):
    found = compare(session(tmp_path), session(tmp_path, ("fx_graph_cache_miss", key(gm="a"))))
    assert not [each for each in found.changes if each.what is What.CACHE]
    assert dict(found.not_compared)[What.CACHE].startswith("the first run recorded no look-ups")
