"""Runs on disk: `.ctrace/<run>/` contains `run.json` (target and outcome), `order.json` and `trace.log`.

Each run.json is checked when it is read, so that a hostile file breaks only its own run. Runs that were deleted are
remembered with the reason, in a file with a short list of names.
"""

import json
import os
import re
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct, field

from ctrace.inspector.errors import RunError, did_you_mean
from ctrace.inspector.facts.outcome import Failure, Target
from ctrace.inspector.files.lock import locked, unused
from ctrace.inspector.files.typed_json import read_object, typed
from ctrace.inspector.files.writing import write_json, write_text
from ctrace.inspector.runs.target import holds

_FILE = ".deleted"
_MOST = 500
"""The maximum number of names in the list."""
# The file has one line for each deleted run; a larger one was not written by ctrace.
_LARGEST = 1 << 20


class DeletedRun(StrEnum):
    """Why a run was deleted."""

    NEWER = "newer"
    """ctrace made room for newer runs."""
    PRUNED = "pruned"
    """The user called `ctrace runs --prune`."""


def remember(root: Path, names: Sequence[str], why: DeletedRun) -> None:
    """Record why runs were deleted. If the disk refuses, do nothing: then only the explanation is missing later."""
    if not names:
        return
    file = root / _FILE
    # Two processes may prune at once, and the list is read before it is written.
    with suppress(OSError), locked(file, lambda _text: None):
        lines = [*_lines(file), *(json.dumps([name, why]) for name in names)]
        write_text(file, "\n".join(lines[-_MOST:]) + "\n")


def why_gone(root: Path, name: str) -> DeletedRun | None:
    """Return why a run was deleted, or None if not known."""
    for line in reversed(_lines(root / _FILE)):
        with suppress(ValueError, TypeError, RecursionError):
            known, why = json.loads(line)
            if known == name:
                return DeletedRun(why)
    return None


def _lines(file: Path) -> list[str]:
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            return lines.read(_LARGEST).splitlines()
    except OSError:
        return []


SCHEMA = 1
"""The version of run.json; raise it if an older ctrace could misread the file."""
KEEP = 10
"""How many runs remain when a new run starts."""
KEPT = "kept"
"""The file in a run's folder that keeps the run from being pruned; run.json is rewritten when a run ends."""
_INFO = "run.json"
_REQUEST = "order.json"
"""The request of the capture; the name stays, since saved runs have it."""
_TRASH = ".trash-"
_LOG = "trace.log"


class SavedRun(Struct, frozen=True):
    """One capture on disk."""

    JSON: ClassVar[str] = "name created status kept=is_kept target *summary"
    folder: Path
    name: str
    target: Target
    created: float
    """Seconds since the epoch."""
    pid: int = 0
    status: str = "running"
    seconds: float | None = None
    failure: Failure | None = None
    summary: Mapping[str, Any] = field(default_factory=dict)
    """Verdict and counts, for the list of runs."""

    @property
    def log(self) -> Path:
        """The trace log."""
        return self.folder / _LOG

    @property
    def request(self) -> Path:
        """The request that the child process reads."""
        return self.folder / _REQUEST

    @property
    def is_kept(self) -> bool:
        """Whether the run is kept when others are pruned."""
        return (self.folder / KEPT).exists()

    @property
    def is_active(self) -> bool:
        """Whether the capturing process is still alive."""
        return self.status == "running" and _is_alive(self.pid)


class Store:
    """The runs in one folder, by default the one that CTRACE_DIR names, else `.ctrace` in the working directory."""

    def __init__(self, root: Path | None = None, keep: int = KEEP) -> None:
        self.root = root or Path(os.environ.get("CTRACE_DIR") or ".ctrace")
        self.unsaved: list[OSError] = []
        """Why runs of this process could not be saved, one error per run."""
        self.last_saved: SavedRun | None = None
        """The run that this process saved last."""
        self.keep = keep

    def keeping(self, keep: int) -> "Store":
        """Return the same store with another number of runs to keep."""
        other = Store(self.root, keep)
        other.unsaved = self.unsaved
        return other

    def create(self, target: Target, name: str | None = None) -> SavedRun:
        """Create the folder of a new run, and prune the oldest runs. A run with a name is kept.

        Raises:
            RunError: the folder cannot be written.
        """
        try:
            return self.begin(target, name)
        except OSError as error:
            what = f"{self.root} cannot be written: {error.strerror or error}"
            raise RunError(
                what, "run from a folder that you may write to, or name one: CTRACE_DIR=/tmp/ctrace"
            ) from None

    def begin(self, target: Target, name: str | None = None) -> SavedRun:
        """Create a run as `create` does, but raise the system's error.

        Raises:
            OSError: the folder cannot be written; it contains no part of the run.
        """
        created = time.time()
        self.root.mkdir(parents=True, exist_ok=True)
        ignore = self.root / ".gitignore"
        if not ignore.exists():
            write_text(ignore, "*\n")
        folder = self._new_folder(target, created, name)
        run = SavedRun(folder, folder.name, target, created, os.getpid())
        try:
            if name is not None:
                (folder / KEPT).touch()
            write_json(folder / _INFO, _info(run))
        except BaseException:
            self.discard(run)
            raise
        # One fewer, since the new run is among those that stay.
        self._prune(self.keep - 1, DeletedRun.NEWER)
        return run

    def _new_folder(self, target: Target, created: float, name: str | None) -> Path:
        if name is not None:
            (self.root / name).mkdir()
            return self.root / name
        stem = _safe(Path(target.path).stem if target.path else target.name or "run")
        base = f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(created))}-{stem}"
        # Several runs may start within the same second.
        for number in range(1, 1000):
            folder = self.root / (base if number == 1 else f"{base}-{number}")
            with suppress(FileExistsError):
                folder.mkdir()
                return folder
        msg = "too many runs within one second"
        raise OSError(msg)

    def finish(self, run: SavedRun, seconds: float, failure: Failure | None, summary: Mapping[str, Any]) -> SavedRun:
        """Save how a run ended."""
        finished = SavedRun(
            folder=run.folder,
            name=run.name,
            target=run.target,
            created=run.created,
            pid=run.pid,
            status="done",
            seconds=seconds,
            failure=failure,
            summary=summary,
        )
        write_json(run.folder / _INFO, _info(finished))
        self.last_saved = finished
        return finished

    def discard(self, run: SavedRun) -> None:
        """Delete a run that is incomplete or useless."""
        shutil.rmtree(run.folder, ignore_errors=True)

    def runs(self) -> list[SavedRun]:
        """List readable runs, oldest first."""
        found = []
        for folder in self._folders():
            with suppress(RunError):
                found.append(_load(folder))
        # By name, too, as runs of one second have their numbers there.
        return sorted(found, key=lambda run: (run.created, run.name))

    def damaged(self) -> list[str]:
        """List the errors of folders whose run.json cannot be read."""
        found = []
        for folder in self._folders():
            try:
                _load(folder)
            except RunError as error:
                found.append(error.what)
        return found

    def _folders(self) -> list[Path]:
        """List the folders of runs, without links: ctrace keeps other things here too, such as repaired files."""
        try:
            with os.scandir(self.root) as entries:
                found = [each.name for each in entries if each.is_dir(follow_symlinks=False)]
        except OSError:
            return []
        folders = (self.root / name for name in sorted(found) if not name.startswith("."))
        return [folder for folder in folders if _is_of_run(folder)]

    def load(self, name: str | None = None) -> SavedRun:
        """Find a run by name or folder, by default the last one.

        Raises:
            RunError: there is no such run, or a newer ctrace wrote it.
        """
        if name is not None:
            for folder in (self.root / name, Path(name)):
                if holds((folder / _INFO).is_file):
                    return _load(folder)
            self.refuse_deleted(name)
            todo = did_you_mean(name, [run.name for run in self.runs()], "ctrace runs lists them")
            raise RunError(f"there is no run {name}", todo)
        # The last complete run: one in another terminal has no verdict yet.
        runs = [run for run in self.runs() if not run.is_active]
        if not runs:
            raise RunError(f"there is no run in {self.root} yet", "create one: ctrace explain model.py")
        return runs[-1]

    def refuse_deleted(self, name: str) -> None:
        """Refuse the name of a deleted run.

        Raises:
            RunError: the run was deleted; the message says why, and how to keep the next one.
        """
        why = why_gone(self.root, name)
        if why is None:
            return
        if why is DeletedRun.PRUNED:
            how = "by ctrace runs --prune"
        else:
            how = f"to make room for newer runs (the last {KEEP} remain)"
        todo = "keep a run with ctrace runs --keep NAME, or name it: ctrace explain model.py --name NAME"
        raise RunError(f"there is no run {name}: it was deleted {how}", todo)

    def prune(self, keep: int) -> list[str]:
        """Delete all but the last `keep` runs; return the names of the deleted ones.

        Runs marked as kept remain, and so do runs that another process writes or reads.
        """
        return self._prune(keep, DeletedRun.PRUNED)

    def _prune(self, keep: int, why: DeletedRun) -> list[str]:
        self._empty_trash()
        ended = [run for run in self.runs() if not run.is_active and not run.is_kept]
        gone = [run.name for run in ended[: max(len(ended) - keep, 0)] if self._delete(run.folder)]
        remember(self.root, gone, why)
        return gone

    def _delete(self, folder: Path) -> bool:
        """Delete a run that no process uses; return whether this process deleted it.

        Move the run away first, so that it disappears as a whole and only one of two processes succeeds.
        """
        trash = folder.with_name(f"{_TRASH}{os.urandom(6).hex()}")
        with unused(folder) as is_free:
            if not is_free:
                return False
            try:
                folder.rename(trash)
            except OSError:
                return False
        shutil.rmtree(trash, ignore_errors=True)
        return True

    def _empty_trash(self) -> None:
        """Delete runs that a process had moved away before it was killed."""
        for trash in self.root.glob(f"{_TRASH}*"):
            shutil.rmtree(trash, ignore_errors=True)


def _is_of_run(folder: Path) -> bool:
    """Whether a folder has a part of a run; one that lost its run.json is a damaged run."""
    return any(os.path.lexists(folder / name) for name in (_INFO, _REQUEST, _LOG))


def _info(run: SavedRun) -> dict[str, Any]:
    failure = run.failure
    return {
        "schema": SCHEMA,
        "created": run.created,
        "pid": run.pid,
        "status": run.status,
        "seconds": run.seconds,
        "target": {"path": run.target.path, "name": run.target.name, "args": list(run.target.args)},
        "failure": failure
        and {
            "phase": failure.phase,
            "type": failure.type,
            "message": failure.message,
            "file": failure.file,
            "line": failure.line,
            "todo": failure.todo,
        },
        "summary": dict(run.summary),
    }


def _load(folder: Path) -> SavedRun:
    try:
        info = read_info(folder / _INFO, SCHEMA)
    except NewerSchemaError as error:
        what = f"{folder} was written by a newer ctrace (schema {error.schema}; this one reads up to {SCHEMA})"
        raise RunError(what, "upgrade ctrace: pip install --upgrade ctrace") from None
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        what = f"{folder / _INFO} cannot be read ({why})"
        raise RunError(what, f"delete the folder and run again: rm -r {shlex.quote(str(folder))}") from None
    return SavedRun(
        folder=folder,
        name=folder.name,
        target=info.target,
        created=info.created,
        pid=info.pid,
        status=info.status,
        seconds=info.seconds,
        failure=info.failure,
        summary=info.summary,
    )


def _safe(name: str) -> str:
    kept = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in name)
    return kept.strip("-")[:40] or "run"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # It belongs to another user, so it is alive.
    except PermissionError:
        return True
    return True


_LAST = 253_402_300_799
"""The last second of the year 9999, the latest time that `datetime` supports."""
# The largest `pid_t`: a larger number in the file is not one that ctrace wrote.
_MOST_PID = 2**31 - 1
_WORD = re.compile(r"[a-z][a-z_ -]{0,39}")
_COUNTS = frozenset(("graphs", "breaks", "skipped", "recompiles"))
# Chosen: far above any count; only so that a forged number cannot widen a table.
_MOST_COUNT = 10**9


class NewerSchemaError(ValueError):
    """A newer ctrace wrote the file."""

    def __init__(self, schema: int) -> None:
        super().__init__(f"schema {schema}")
        self.schema = schema


class SavedInfo(Struct, frozen=True):
    """The fields of run.json."""

    target: Target
    created: float
    pid: int
    status: str
    seconds: float | None
    failure: Failure | None
    summary: Mapping[str, Any] = field(default_factory=dict)


def read_info(path: Path, schema: int) -> SavedInfo:
    """Read run.json.

    Raises:
        OSError: it cannot be read.
        NewerSchemaError: its schema is above `schema`.
        ValueError: it does not have the form that ctrace writes.
    """
    data = read_object(path)
    found = _field(data, "schema", int)
    if found > schema:
        raise NewerSchemaError(found)
    if found < 1:
        raise ValueError(f"schema is {found}")
    failure = data.get("failure")
    return SavedInfo(
        target=_field(data, "target", Target),
        created=_within(_field(data, "created", float), 0, _LAST, "created"),
        pid=int(_within(_field(data, "pid", int), 1, _MOST_PID, "pid")),
        status=_word(_field(data, "status", str), "status"),
        seconds=_seconds(data.get("seconds")),
        failure=None if failure is None else typed(Failure, failure, "failure"),
        summary=_summary(data.get("summary")),
    )


def _field(data: dict[str, Any], name: str, kind: type[Any]) -> Any:
    if name not in data:
        raise ValueError(f"there is no {name}")
    return typed(kind, data[name], name)


def _within(number: float, least: float, most: float, what: str) -> float:
    if not least <= number <= most:
        raise ValueError(f"{what} is out of range")
    return number


def _word(text: str, what: str) -> str:
    if not _WORD.fullmatch(text):
        raise ValueError(f"{what} is {text!r:.60}")
    return text


def _seconds(data: Any) -> float | None:
    if data is None:
        return None
    return _within(typed(float, data, "seconds"), 0, _LAST, "seconds")


def _summary(data: Any) -> dict[str, Any]:
    """Check the counts and the verdict in the summary, and that entries of later versions of ctrace are scalars."""
    summary: dict[str, Any] = typed(dict, data, "summary")
    for name in summary.keys() & _COUNTS:
        _within(typed(int, summary[name], name), 0, _MOST_COUNT, name)
    if "verdict" in summary:
        _word(typed(str, summary["verdict"], "verdict"), "verdict")
    for name in summary.keys() & {"torch", "target_gpu", "branch", "commit"}:
        typed(str, summary[name] or "", name)
    for name, value in summary.items():
        _check_scalar(value, f"summary: {name!r:.60}")
    return summary


def _check_scalar(value: Any, what: str) -> None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        typed(float, value, what)
    elif value is not None and not isinstance(value, str | bool):
        raise ValueError(f"{what} is not a scalar")
