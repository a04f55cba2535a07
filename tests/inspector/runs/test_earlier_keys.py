"""Keys of earlier runs: remembered, compared, and read from a file that anybody may have changed."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from ctrace.inspector.errors import RunError
from ctrace.inspector.facts.outcome import Target
from ctrace.inspector.facts.session import Session
from ctrace.inspector.runs import provenance
from ctrace.inspector.runs.cache_folder import cache_environment, private_folder, with_earlier_keys
from ctrace.inspector.runs.load import load
from ctrace.inspector.runs.saving import Saving
from ctrace.inspector.runs.store import Store
from tests.support.compiling import Log, components


def run(store: Store, name: str, key: str, kind: str = "private", target: str = "/w/model.py", **texts: str) -> Session:
    """Save a run that missed one key, and compare it with the runs before."""
    log = Log().ours("caches", {"kind": kind, "folder": "/c", "switched_off": []})
    log.cache("fx_graph_cache_miss", key=key, cache_status_detailed="full_miss", components=components(**texts))
    saving = Saving(store, Target(target, "model"), name)
    made = saving.run
    assert made is not None
    made.log.write_text(log.text())
    session = replace(log.session(), target=Target(target, "model"))
    found = with_earlier_keys(session, saving, store, kind)
    saved = load(store.finish(made, 1.0, None, {}))
    assert saved.compile_time.earlier == found.compile_time.earlier  # the log has it, too
    return found


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / ".ctrace")


def differing(session: Session) -> list[tuple[str, list[str]]]:
    return [(each.run, [one.component for one in each.differs]) for each in session.compile_time.earlier]


def test_the_second_run_is_compared_with_the_first(store: Store) -> None:
    assert differing(run(store, "one", "f1", gm="relu", option="True")) == []
    assert differing(run(store, "two", "f2", gm="sigmoid", option="True")) == [("one", ["gm"])]
    assert differing(run(store, "three", "f3", gm="sigmoid", option="False")) == [("two", ["option"])]


def test_other_targets_and_other_caches_are_not_compared(store: Store) -> None:
    run(store, "one", "f1", gm="relu")
    assert differing(run(store, "two", "f2", target="/w/other.py", gm="y")) == []
    assert differing(run(store, "three", "f3", kind="user", gm="y")) == []


def test_a_key_is_remembered_once_with_the_newest_run(store: Store) -> None:
    for name in ("one", "two", "three"):
        run(store, name, "f1", gm="relu")
    found = json.loads((store.root / ".caches" / "keys.json").read_text())
    assert [(each["run"], each["key"]) for each in found["keys"]] == [("three", "f1")]
    assert len(found["parts"]) == 1


def test_the_oldest_keys_are_forgotten(store: Store) -> None:
    for number in range(70):
        run(store.keeping(2), f"run-{number}", f"f{number}", gm=f"graph {number}")
    found = json.loads((store.root / ".caches" / "keys.json").read_text())
    assert len(found["keys"]) == 64
    assert len(found["parts"]) == 64


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"schema": 2}', '{"schema": 1, "parts": 3, "keys": []}',
        '{"schema": 1, "parts": [["a", "b"]], "keys": []}',
        '{"schema": 1, "parts": [], "keys": [{"of": "x", "run": "r", "cache": "fx_graph", "graph": null, '
        '"stage": null, "key": "k", "components": [5]}]}',
    ],
)  # fmt: skip
def test_a_damaged_file_is_a_problem_and_replaced(store: Store, text: str) -> None:
    path = store.root / ".caches" / "keys.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    first = run(store, "one", "f1", gm="relu")
    assert any("keys of earlier runs cannot be read" in each.what for each in first.problems)
    assert differing(run(store, "two", "f2", gm="y")) == [("one", ["gm"])]


def test_the_private_folder_has_a_name_that_no_clone_can_bring(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(store.root.parent)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    folder = private_folder(store)
    assert folder == private_folder(store)
    assert folder.parent == store.root / ".caches"
    assert folder.name == provenance.proof_of(f"caches of {store.root.resolve()}")[:24]
    assert folder.stat().st_mode & 0o077 == 0


def test_without_a_key_there_are_no_private_caches(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "proof_of", lambda _text: "")
    with pytest.raises(RunError, match="no private caches"):
        private_folder(store)


def test_only_the_private_caches_change_the_environment() -> None:
    assert cache_environment("user", "") == {}
    found = cache_environment("private", "/c")
    assert found["TORCHINDUCTOR_CACHE_DIR"] == "/c"
    assert found["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] is None
