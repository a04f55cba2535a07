"""If the disk refuses a run, it still runs and is shown, and leaves no files behind."""

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ctrace.cli.console import say_unsaved
from ctrace.inspector.errors import SetupError
from ctrace.inspector.facts.outcome import Target
from ctrace.inspector.facts.run_events import ProblemMet
from ctrace.inspector.files.disk_errors import is_of_the_system, reason, remedy
from ctrace.inspector.files.writing import write_json, write_text
from ctrace.inspector.runs import saving as module
from ctrace.inspector.runs.capture_request import CaptureRequest, Options
from ctrace.inspector.runs.saving import Saving
from ctrace.inspector.runs.store import Store

TARGET = Target("model.py", "model")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / ".ctrace")


def request(saving: Saving) -> CaptureRequest:
    log = str(saving.run.log) if saving.run is not None else ""
    return CaptureRequest("model", "model.py", None, None, (), Options(), log)


def test_a_run_that_is_saved(store: Store) -> None:
    with Saving(store, TARGET, "before") as saving:
        assert saving.request(request(saving)).log
        assert saving.run is not None
        assert store.prune(0) == []
        saving.finish(1.0, None, {"verdict": "compiled"}, is_whole=True)
    assert store.load("before").status == "done"
    assert store.unsaved == []


def test_a_store_that_is_a_file(store: Store) -> None:
    store.root.write_text("")
    with Saving(store, TARGET) as saving:
        assert saving.run is None
        assert saving.request(request(saving)).log == ""
        saving.finish(1.0, None, {}, is_whole=False)
        saving.discard()
    (error,) = store.unsaved
    assert error.errno == errno.EEXIST


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_disk_that_fills(step: int, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    writes = [0]

    def filling(write: Callable[..., None]) -> Callable[..., None]:
        def until_full(*args: object) -> None:
            writes[0] += 1
            if writes[0] >= step:
                raise OSError(errno.ENOSPC, "No space left on device")
            write(*args)

        return until_full

    monkeypatch.setattr("ctrace.inspector.runs.store.write_json", filling(write_json))
    monkeypatch.setattr("ctrace.inspector.runs.saving.write_text", filling(write_text))
    with Saving(store, TARGET) as saving:
        asked = saving.request(request(saving))
        assert bool(asked.log) == (step == 3)
        saving.finish(1.0, None, {}, is_whole=True)
    assert [error.errno for error in store.unsaved] == [errno.ENOSPC]
    assert [each.name for each in store.root.iterdir()] == [".gitignore"]


def test_a_log_that_is_not_whole_is_not_kept(store: Store) -> None:
    with Saving(store, TARGET) as saving:
        saving.request(request(saving))
        saving.finish(1.0, None, {}, is_whole=False)
    assert store.runs() == []
    assert reason(store.unsaved[0]) == "the disk refused part of the log"


@pytest.mark.parametrize("how", ["deleted", "a link", "a file", "another folder"])
def test_a_folder_that_the_program_replaces(how: str, store: Store, tmp_path: Path) -> None:
    other = tmp_path / "precious"
    other.mkdir()
    (other / "file").write_text("x")
    with Saving(store, TARGET) as saving:
        saving.request(request(saving))
        assert saving.run is not None
        folder = saving.run.folder
        shutil.rmtree(folder)
        if how == "a link":
            folder.symlink_to(other)
        elif how == "a file":
            folder.write_text("x")
        elif how == "another folder":
            other.rename(folder)
            other = folder
        saving.finish(1.0, None, {}, is_whole=True)
    assert "was deleted or replaced" in reason(store.unsaved[0])
    assert [each.name for each in other.iterdir()] == ["file"]


@pytest.mark.parametrize("how", ["deleted", "log deleted", "a link", "full"])
def test_a_record_that_cannot_be_added(how: str, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program may delete its run while advice is tried; then the run is not saved, and shown anyway."""
    with Saving(store, TARGET) as saving:
        saving.request(request(saving))
        assert saving.run is not None
        saving.run.log.write_bytes(b"log\n")
        if how == "log deleted":
            saving.run.log.unlink()
        elif how == "full":
            monkeypatch.setattr(module, "append_whole", _refuse)
        else:
            saving.run.folder.rename(tmp_path / "moved")
        if how == "a link":
            saving.run.folder.symlink_to(tmp_path / "moved")
        saving.add(ProblemMet("late"))
        saving.add(ProblemMet("late"))
        saving.finish(1.0, None, {}, is_whole=True)
    assert len(store.unsaved) == 1
    assert store.runs() == []
    if how in ("deleted", "a link"):
        assert (tmp_path / "moved" / "trace.log").read_bytes() == b"log\n"


def _refuse(*_: object, **_named: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_what_is_said(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    store.unsaved += [full, full, OSError(errno.EROFS, "Read-only file system")]
    say_unsaved(store)
    say_unsaved(store)
    assert capsys.readouterr().err == (
        "ctrace: 2 runs were not saved: no space left on device\n"
        "  free some space (ctrace runs --prune 3), or keep runs elsewhere: CTRACE_DIR=/path/to/folder\n"
        "ctrace: the run was not saved: read-only file system\n"
        "  name a folder that you may write to: CTRACE_DIR=/path/to/folder\n"
    )


def test_errors_of_the_system_and_of_ours() -> None:
    assert is_of_the_system(OSError(errno.EDQUOT, "Disk quota exceeded"))
    assert not is_of_the_system(FileNotFoundError(errno.ENOENT, "No such file"))
    assert "ulimit -n" in remedy(OSError(errno.EMFILE, "Too many open files"))


def test_what_never_ran_is_not_kept(store: Store) -> None:
    with pytest.raises(SetupError), Saving(store, TARGET):
        raise SetupError("Python cannot be started", "allow more")
    assert store.runs() == []
