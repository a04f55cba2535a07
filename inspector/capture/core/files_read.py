"""Record what a model depends on, so that a later check can tell whether that has changed.

These are the user's modules and the files that Python code opens for reading, and what `python_questions.py` records.
What the kernel sees of the program, such as files that native code opens, comes from `processes/system_calls.py`.
"""

import hashlib
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from os import fspath, getpid
from pathlib import Path
from typing import Any

from ctrace.inspector.capture.core.environment import library_prefixes
from ctrace.inspector.capture.core.python_questions import OURS, QUESTIONS, described
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.source import Source, When
from ctrace.inspector.facts.events.run_events import FilesFound
from ctrace.inspector.processes import system_calls

_MOST_FILES = 5000
_MOST_BYTES = 1 << 28
_SYSTEM = ("/proc/", "/dev/", "/sys/")
_WRITES = os.O_WRONLY | os.O_RDWR


def files_read(owned: Iterable[str]) -> Source:
    """Make the source that records these files; `owned` are paths that count as the user's."""

    @contextmanager
    def source(recorder: Recorder, _when: When) -> Iterator[None]:
        opened = _Opened()
        QUESTIONS.begin()
        # Python has no way to remove an audit hook, so `is_over` silences it at the end.
        sys.addaudithook(opened.note)
        stop = QUESTIONS.begin_to_listen()
        try:
            with QUESTIONS.hearing_names():
                yield
        finally:
            opened.is_over = True
            stop()
            if opened.process == getpid():  # a fork of the program must not end what is asked by the program itself
                system_calls.end()
            with recorder.watching("the files of the model"):
                asked = described(QUESTIONS, tuple(owned))
                recorder.add(FilesFound(_digests(opened, tuple(owned)), asked))

    return source


class _Opened:
    """Collects the files that this process opens."""

    def __init__(self) -> None:
        self.is_over = False
        self.read: set[str] = set()
        self.written: set[str] = set()
        self.began = time.time_ns()
        self.process = getpid()

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note an opened file; Python calls this for every audit event, with the arguments of the audited function."""
        # The cheapest question first: Python raises many kinds of events, and waits for each hook.
        if event != "open" or self.is_over or getpid() != self.process:
            return
        path, mode, flags = arguments
        if isinstance(path, int) or path is None:
            return
        is_written = flags & _WRITES if isinstance(flags, int) else any(each in str(mode) for each in "wax+")
        (self.written if is_written else self.read).add(os.path.abspath(os.fsdecode(fspath(path))))  # noqa: PTH100


def _digests(opened: _Opened, owned: tuple[str, ...]) -> dict[str, str]:
    """Return the digest of each file, or "" for a file without one and for files beyond the first `_MOST_FILES`."""
    modules = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    sources = {os.path.abspath(each) for each in modules if isinstance(each, str)}  # noqa: PTH100
    libraries = tuple(f"{prefix}{os.sep}" for prefix in {*library_prefixes(), *OURS} if prefix not in owned)
    found: dict[str, str] = {}
    # A file that the program writes is a result, and differs each time.
    for path in sorted((sources | opened.read) - opened.written):
        is_library = path.startswith(libraries) and not path.startswith(owned or ("\0",))
        if is_library or path.startswith(_SYSTEM) or path.endswith(".pyc") or not Path(path).is_file():
            continue
        found[path] = _digest(path, opened.began) if len(found) < _MOST_FILES else ""
    return found


def _digest(path: str, began: int) -> str:
    """Return the digest of a file, or "" if it is too large or has changed since the program began to read it."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - the program may have replaced pathlib's functions
            status = os.fstat(file.fileno())
            if status.st_size > _MOST_BYTES or max(status.st_mtime_ns, status.st_ctime_ns) >= began:
                return ""
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
