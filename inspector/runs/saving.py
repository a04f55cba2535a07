"""Save a run as far as the disk allows; a run that cannot be saved still runs, and reports show it."""

import errno
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from msgspec.structs import replace

from ctrace.inspector.errors import CtraceError
from ctrace.inspector.facts.outcome import Failure, Target
from ctrace.inspector.facts.wire import Record
from ctrace.inspector.files.lock import in_use
from ctrace.inspector.files.writing import append_whole, write_text
from ctrace.inspector.log.log_line import artifact_of, record_line
from ctrace.inspector.runs import provenance
from ctrace.inspector.runs.capture_request import CaptureRequest
from ctrace.inspector.runs.store import SavedRun, Store

Adds = Callable[[Record], None]
"""Adds a record to the log of a run that is being saved."""


class Saving:
    """Saves one run during its capture.

    After the first disk error, the capture goes on without being saved. The files saved so far are deleted, because
    half a run would look like a run that was cut off.
    """

    def __init__(self, store: Store, target: Target, name: str | None = None) -> None:
        self.run: SavedRun | None = None
        """The run on disk; None if it is not saved."""
        self._store = store
        self._using = ExitStack()
        self._folder: tuple[int, int] | None = None
        self._attempt(lambda: self._begin(target, name))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if isinstance(error, CtraceError):  # nothing ran
            self.discard()
        self._using.close()

    def request(self, request: CaptureRequest) -> CaptureRequest:
        """Save the request with the proof of its origin; return the request in the form that the child needs."""
        self._attempt(lambda: self._save_request(request.to_json()))
        if self.run is not None:
            return request
        return replace(request, log="")

    def finish(self, seconds: float, failure: Failure | None, summary: Mapping[str, Any], *, is_whole: bool) -> None:
        """Save how the run ended; `is_whole` says whether the whole log is on disk."""
        self._attempt(lambda: self._finish(seconds, failure, summary, is_whole=is_whole))

    def add(self, record: Record) -> None:
        """Add a record to the run's log once the program has ended."""
        self._attempt(lambda: self._add(record))

    def discard(self) -> None:
        """Delete the run."""
        if self.run is not None and self._is_in_place(self.run.folder):
            self._store.discard(self.run)
        self.run = None

    def _begin(self, target: Target, name: str | None) -> None:
        self.run = self._store.begin(target, name)
        self._folder = _identity(self.run.folder)
        self._using.enter_context(in_use(self.run.folder))

    def _save_request(self, text: str) -> None:
        if self.run is not None:
            write_text(self.run.request, text)
            provenance.sign(self.run)

    def _add(self, record: Record) -> None:
        if self.run is not None:
            self._check_in_place(self.run.folder)
            append_whole(self.run.log, record_line(*artifact_of(record), "ctrace", 0), is_new=False)

    def _finish(self, seconds: float, failure: Failure | None, summary: Mapping[str, Any], *, is_whole: bool) -> None:
        if self.run is None:
            return
        self._check_in_place(self.run.folder)
        if not is_whole:
            raise _refused_by(self.run.folder)
        self._store.finish(self.run, seconds, failure, summary)

    def _attempt(self, action: Callable[[], None]) -> None:
        try:
            action()
        except OSError as error:
            self._store.unsaved.append(error)
            self.discard()

    def _check_in_place(self, folder: Path) -> None:
        if not self._is_in_place(folder):
            raise FileNotFoundError(errno.ENOENT, f"{folder} was deleted or replaced while the program ran")

    def _is_in_place(self, folder: Path) -> bool:
        """Whether the run's folder is still the folder that ctrace created, and was neither deleted nor replaced."""
        return self._folder is not None and _identity(folder) == self._folder


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = os.lstat(folder)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _refused_by(folder: Path) -> OSError:
    """Find out why the disk refused the log, by writing a probe of 1 MiB."""
    probe = folder / ".probe"
    try:
        # As large as what a log writes at once, as a nearly full disk still takes a few bytes.
        write_text(probe, "." * (1 << 20))
        probe.unlink()
    except OSError as error:
        return error
    return OSError(errno.EIO, "the disk refused part of the log")
