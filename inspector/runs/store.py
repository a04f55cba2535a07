"""Runs on disk: `.ctrace/<run>/` contains `run.json` (target and outcome), `order.json` and `trace.log`."""

import os
import shlex
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.errors import RunError, did_you_mean
from ctrace.inspector.facts.outcome import Failure, Target
from ctrace.inspector.files.lock import unused
from ctrace.inspector.files.writing import write_json, write_text
from ctrace.inspector.runs.saved_info import NewerSchemaError, read_info
from ctrace.inspector.runs.target import holds
from ctrace.inspector.runs.tombstones import Gone, remember, why_gone

SCHEMA = 1
"""The version of run.json; raise it if an older ctrace could misread the file."""
KEEP = 10
"""How many runs remain when a new run starts."""
KEPT = "kept"
"""The file in a run's folder that keeps the run from being pruned; run.json is rewritten when a run ends."""
_INFO = "run.json"
_ORDER = "order.json"
_TRASH = ".trash-"
_LOG = "trace.log"


class Run(Struct, frozen=True):
    """One capture on disk."""

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
        return self.folder / _ORDER

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
        self.last_saved: Run | None = None
        """The run that this process saved last."""
        self.keep = keep

    def keeping(self, keep: int) -> "Store":
        """Return the same store with another number of runs to keep."""
        other = Store(self.root, keep)
        other.unsaved = self.unsaved
        return other

    def create(self, target: Target, name: str | None = None) -> Run:
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

    def begin(self, target: Target, name: str | None = None) -> Run:
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
        run = Run(folder, folder.name, target, created, os.getpid())
        try:
            if name is not None:
                (folder / KEPT).touch()
            write_json(folder / _INFO, _info(run))
        except BaseException:
            self.discard(run)
            raise
        self._prune(self.keep - 1, Gone.NEWER)
        return run

    def _new_folder(self, target: Target, created: float, name: str | None) -> Path:
        if name is not None:
            (self.root / name).mkdir()
            return self.root / name
        stem = _safe(Path(target.path).stem if target.path else target.name or "run")
        base = f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(created))}-{stem}"
        for number in range(1, 1000):
            folder = self.root / (base if number == 1 else f"{base}-{number}")
            with suppress(FileExistsError):
                folder.mkdir()
                return folder
        msg = "too many runs within one second"
        raise OSError(msg)

    def finish(self, run: Run, seconds: float, failure: Failure | None, summary: Mapping[str, Any]) -> Run:
        """Save how a run ended."""
        finished = Run(run.folder, run.name, run.target, run.created, run.pid, "done", seconds, failure, summary)
        write_json(run.folder / _INFO, _info(finished))
        self.last_saved = finished
        return finished

    def discard(self, run: Run) -> None:
        """Delete a run that is incomplete or useless."""
        shutil.rmtree(run.folder, ignore_errors=True)

    def runs(self) -> list[Run]:
        """List readable runs, oldest first."""
        found = []
        for folder in self._folders():
            with suppress(RunError):
                found.append(_load(folder))
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

    def load(self, name: str | None = None) -> Run:
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
        how = (
            "by ctrace runs --prune" if why is Gone.PRUNED else f"to make room for newer runs (the last {KEEP} remain)"
        )
        todo = "keep a run with ctrace runs --keep NAME, or name it: ctrace explain model.py --name NAME"
        raise RunError(f"there is no run {name}: it was deleted {how}", todo)

    def prune(self, keep: int) -> list[str]:
        """Delete all but the last `keep` runs; return the names of the deleted ones.

        Runs marked as kept remain, and so do runs that another process writes or reads.
        """
        return self._prune(keep, Gone.PRUNED)

    def _prune(self, keep: int, why: Gone) -> list[str]:
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
    return any(os.path.lexists(folder / name) for name in (_INFO, _ORDER, _LOG))


def _info(run: Run) -> dict[str, Any]:
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


def _load(folder: Path) -> Run:
    try:
        info = read_info(folder / _INFO, SCHEMA)
    except NewerSchemaError as error:
        what = f"{folder} was written by a newer ctrace (schema {error.schema}; this one reads up to {SCHEMA})"
        raise RunError(what, "upgrade ctrace: pip install --upgrade ctrace") from None
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        what = f"{folder / _INFO} cannot be read ({why})"
        raise RunError(what, f"delete the folder and run again: rm -r {shlex.quote(str(folder))}") from None
    return Run(
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
    except PermissionError:
        return True
    return True
