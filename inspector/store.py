"""Runs on disk: `.ctrace/<run>/` holds `run.json` (what was run and how it ended), `order.json` and `trace.log`."""

import difflib
import json
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ctrace.inspector.ended import Failure, FailurePhase, Target
from ctrace.inspector.errors import RunError
from ctrace.inspector.files import write_json

SCHEMA = 1
"""Schema of run.json; counts up when an older ctrace could misread it."""
KEEP = 10
"""How many runs stay when a new one is made."""
_INFO = "run.json"
_LOG = "trace.log"


@dataclass(frozen=True, slots=True)
class Run:
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
    def order(self) -> Path:
        """The order that the child process reads."""
        return self.folder / "order.json"

    @property
    def is_active(self) -> bool:
        """Whether the process that makes the run is still at it."""
        return self.status == "running" and _is_alive(self.pid)


class Store:
    """The runs of one folder, by default `.ctrace` in the working directory or what CTRACE_DIR names."""

    def __init__(self, root: Path | None = None, keep: int = KEEP) -> None:
        self.root = root or Path(os.environ.get("CTRACE_DIR") or ".ctrace")
        self._keep = keep

    def create(self, target: Target) -> Run:
        """Make the folder of a new run, and let go of the oldest ones.

        Raises:
            RunError: the folder cannot be written.
        """
        created = time.time()
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            ignore = self.root / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")
            run = Run(self._new_folder(target, created), "", target, created, os.getpid())
            run = Run(run.folder, run.folder.name, target, created, os.getpid())
            write_json(run.folder / _INFO, _info(run))
        except OSError as error:
            what = f"{self.root} cannot be written: {error.strerror or error}"
            raise RunError(what, "run from a folder you may write to, or name one: CTRACE_DIR=/tmp/ctrace") from None
        self.prune(self._keep - 1)
        return run

    def _new_folder(self, target: Target, created: float) -> Path:
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
        """Write down how a run ended."""
        ended = Run(run.folder, run.name, run.target, run.created, run.pid, "done", seconds, failure, summary)
        write_json(run.folder / _INFO, _info(ended))
        return ended

    def discard(self, run: Run) -> None:
        """Delete a run that turned out to be none."""
        shutil.rmtree(run.folder, ignore_errors=True)

    def runs(self) -> list[Run]:
        """List readable runs, oldest first."""
        found = []
        for folder in sorted(self.root.glob("*/")) if self.root.is_dir() else ():
            with suppress(RunError):
                found.append(_load(folder))
        return sorted(found, key=lambda run: (run.created, run.name))

    def damaged(self) -> list[str]:
        """Say of each folder whose run.json cannot be read what is wrong with it."""
        found = []
        for folder in sorted(self.root.glob("*/")) if self.root.is_dir() else ():
            try:
                _load(folder)
            except RunError as error:
                found.append(error.what)
        return found

    def load(self, name: str | None = None) -> Run:
        """Find a run by name, by folder, or the last one.

        Raises:
            RunError: there is none, or a newer ctrace wrote it.
        """
        if name is not None:
            for folder in (self.root / name, Path(name)):
                if (folder / _INFO).is_file():
                    return _load(folder)
            near = difflib.get_close_matches(name, [run.name for run in self.runs()], 1)
            todo = f"did you mean {near[0]}?" if near else "ctrace runs lists them"
            raise RunError(f"there is no run {name}", todo)
        runs = [run for run in self.runs() if not run.is_active]
        if not runs:
            raise RunError(f"there is no run in {self.root} yet", "make one: ctrace explain model.py")
        return runs[-1]

    def prune(self, keep: int) -> list[str]:
        """Delete all but the last `keep` runs that are not still being made; give the names of those deleted."""
        ended = [run for run in self.runs() if not run.is_active]
        gone = ended[: max(len(ended) - keep, 0)]
        for run in gone:
            shutil.rmtree(run.folder, ignore_errors=True)
        return [run.name for run in gone]


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
        data = json.loads((folder / _INFO).read_text(encoding="utf-8"))
        if data["schema"] > SCHEMA:
            what = f"{folder} was written by a newer ctrace (schema {data['schema']}; this one reads up to {SCHEMA})"
            raise RunError(what, "upgrade ctrace: pip install --upgrade ctrace")
        target, failure = data["target"], data["failure"]
        return Run(
            folder=folder,
            name=folder.name,
            target=Target(target["path"], target["name"], tuple(target["args"])),
            created=float(data["created"]),
            pid=int(data["pid"]),
            status=str(data["status"]),
            seconds=data["seconds"],
            failure=Failure(**{**failure, "phase": FailurePhase(failure["phase"])}) if failure else None,
            summary=data["summary"],
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"{folder / _INFO} cannot be read ({type(error).__name__}: {error})"
        raise RunError(what, f"delete the folder and run again: rm -r {folder}") from None


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
