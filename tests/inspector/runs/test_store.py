"""Runs on disk."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ctrace.inspector.errors import RunError
from ctrace.inspector.facts.session import Failure, FailurePhase, Target
from ctrace.inspector.runs.store import Store

TARGET = Target("model.py", "model")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / ".ctrace")


def _made(store: Store, number: int) -> list[str]:
    return [store.finish(store.create(TARGET), 1.0, None, {"verdict": "compiled"}).name for _ in range(number)]


def test_git_ignores_the_folder(store: Store) -> None:
    store.create(TARGET)
    assert (store.root / ".gitignore").read_text() == "*\n"


def test_runs_of_one_second_get_their_own_folders(store: Store) -> None:
    assert len(set(_made(store, 3))) == 3


def test_the_last_ten_stay(store: Store) -> None:
    names = _made(store, 12)
    assert [run.name for run in store.runs()] == names[-10:]


def test_a_run_in_progress_is_never_pruned(store: Store) -> None:
    active = store.create(TARGET)
    _made(store, 12)
    assert active.name in [run.name for run in store.runs()]
    assert store.prune(0)
    assert [run.name for run in store.runs()] == [active.name]


def test_a_run_whose_process_is_gone_is_pruned(store: Store) -> None:
    run = store.create(TARGET)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    info = json.loads((run.folder / "run.json").read_text())
    (run.folder / "run.json").write_text(json.dumps({**info, "pid": gone.pid}))
    assert store.prune(0) == [run.name]


def test_two_captures_at_once_do_not_meet(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda _: store.create(TARGET), range(16)))
    assert len({run.folder for run in runs}) == 16


def test_what_was_finished_is_read_back(store: Store) -> None:
    failure = Failure(FailurePhase.CRASH, "SIGSEGV", "crashed")
    run = store.finish(store.create(Target("a.py", None, ("--x", "1"))), 2.5, failure, {"verdict": "failed"})
    assert store.load() == run
    assert store.load(run.name) == store.load(str(run.folder))


def test_no_run_yet(store: Store) -> None:
    with pytest.raises(RunError) as caught:
        store.load()
    assert "ctrace explain" in caught.value.todo


def test_a_name_that_is_nearly_right(store: Store) -> None:
    (name,) = _made(store, 1)
    with pytest.raises(RunError) as caught:
        store.load(name[:-1])
    assert caught.value.todo == f"did you mean {name}?"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 1}', '{"schema": "x"}', '{"schema": 1, "target": 3}'])
def test_a_damaged_run_is_said_to_be_so(store: Store, text: str) -> None:
    run = store.create(TARGET)
    (run.folder / "run.json").write_text(text)
    with pytest.raises(RunError):
        store.load(run.name)
    assert store.runs() == []
    (what,) = store.damaged()
    assert what.startswith(f"{run.folder}/run.json cannot be read")


def test_a_run_of_a_newer_ctrace_asks_for_an_upgrade(store: Store) -> None:
    run = store.create(TARGET)
    info = json.loads((run.folder / "run.json").read_text())
    (run.folder / "run.json").write_text(json.dumps({**info, "schema": 99}))
    with pytest.raises(RunError, match="newer ctrace") as caught:
        store.load(run.name)
    assert "upgrade" in caught.value.todo


def test_runs_that_can_be_read_are_not_damaged(store: Store) -> None:
    assert store.damaged() == []
    store.create(TARGET)
    _made(store, 2)
    assert store.damaged() == []


def test_folders_that_are_no_runs_are_not_taken_for_damaged_ones(store: Store) -> None:
    run = store.create(TARGET)
    for name in ("fixes", "repros", "notes"):
        (store.root / name).mkdir()
        (store.root / name / "20260101.json").write_text("{}")
    assert store.damaged() == []
    assert [each.name for each in store.runs()] == [run.name]
    (run.folder / "run.json").unlink()
    assert store.damaged() == []
    (run.folder / "trace.log").touch()
    (what,) = store.damaged()
    assert what.startswith(f"{run.folder}/run.json cannot be read")


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(RunError, match="cannot be written"):
        Store(blocked / "runs").create(TARGET)


def test_ctrace_dir_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTRACE_DIR", str(tmp_path / "elsewhere"))
    assert Store().root == tmp_path / "elsewhere"
