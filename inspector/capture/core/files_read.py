"""Record the files that a model depends on, so that a later check can tell whether they have changed.

These are the user's modules and the files that Python code opens for reading. Libraries are left out, because their
versions identify them. Files that native code opens are not recorded.
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
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.source import Source, When
from ctrace.inspector.install_folders import PACKAGES

_MOST_FILES = 5000
_MOST_BYTES = 1 << 28
_OURS = tuple(str(PACKAGES / each) for each in ("cli", "inspector", "reports", "ctrace"))
_SYSTEM = ("/proc/", "/dev/", "/sys/")
_WRITES = os.O_WRONLY | os.O_RDWR


def files_read(owned: Iterable[str]) -> Source:
    """Make the source that records these files; `owned` are paths that count as the user's."""

    @contextmanager
    def source(recorder: Recorder, _when: When) -> Iterator[None]:
        opened = _Opened()
        sys.addaudithook(opened.note)
        try:
            yield
        finally:
            opened.is_over = True
            with recorder.watching("the files of the model"):
                recorder.record("files", {"files": _digests(opened, tuple(owned))})

    return source


class _Opened:
    """Collects the files that this process opens."""

    def __init__(self) -> None:
        self.is_over = False
        self.read: set[str] = set()
        self.written: set[str] = set()
        self.began = time.time_ns()
        self._process = getpid()

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note an opened file; Python calls this for every audit event, with the arguments of the audited function."""
        if event != "open" or self.is_over or getpid() != self._process:
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
    libraries = tuple(f"{prefix}{os.sep}" for prefix in {*library_prefixes(), *_OURS} if prefix not in owned)
    found: dict[str, str] = {}
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
            if status.st_size > _MOST_BYTES or status.st_mtime_ns >= began:
                return ""
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
