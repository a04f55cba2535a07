"""Keep the Session of a large log in ctrace's own folder, so that the next view of the log starts at once.

The file is called the index of the log. It counts only for the same log (its path, size, time, and the content of its
head and tail), read by the same ctrace, while the sources that the log names are the same. Whatever else is there is
ignored and written again.
"""

import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.stored import Stored, Text
from ctrace.inspector.files.writing import write_bytes
from ctrace.inspector.install_folders import PACKAGES
from ctrace.inspector.version import __version__

SCHEMA = 1
"""The version of the file's form; what it contains depends on ctrace's own code, which is part of the key."""
FOLDER = ".logs"
"""The folder in ctrace's own; a leading dot keeps it from being taken for a run."""
_END = 1 << 16
"""How much of a log's head and tail to compare."""
# Ours: the first line has the key and the stamps of the sources; a file without line ends must not be read whole.
_MOST_HEADER = 1 << 20
# Reading a larger index would take as long as reading the log.
_MOST = 256 << 20
# Indexes are kept for the logs that were read last; they save time, and are never needed.
_MOST_FILES = 20
# Chosen: each is a file to look at whenever the index is used.
_MOST_SOURCES = 2_000
# A file that is still being written is younger; an older unfinished one was left by a process that was killed.
_OLD_SECONDS = 3600.0
_CODE = ("inspector",)
# Without blocking: a named pipe in the place of an index must not stop the command.
_OPEN = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class SessionCache:
    """The index of one log: a file with its Session."""

    def __init__(self, folder: Path, log: Path) -> None:
        """Identify the log as it is now.

        Raises:
            OSError: the log cannot be read.
        """
        self._log = log.absolute()
        name = hashlib.sha256(os.fsencode(self._log)).hexdigest()[:32]
        self._path = folder / f"{name}.index"
        self._key = {"schema": SCHEMA, "ctrace": [__version__, _code()], "log": _identity(self._log)}

    def read(self) -> Session | None:
        """Return what the index has of the log; None if there is none for this log as it is."""
        try:
            header, body = _content(self._path)
            known = json.loads(header)
            is_same = {name: known[name] for name in self._key} == self._key and _stamps(known["sources"]) == known[
                "sources"
            ]
            if not is_same or known["digest"] != hashlib.sha256(body).hexdigest():
                return None
            session = msgspec.msgpack.decode(body, type=Session)
        # Anybody may have written the file: whatever is wrong with it, the log is read instead.
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, msgspec.MsgspecError):
            return None
        # A payload may only come from the log that the user named.
        if all(each.path == str(self._log) for each in _stored(session)):
            return session
        return None

    def write(self, session: Session) -> None:
        """Replace the index.

        Raises:
            OSError: it cannot be written; the former one is still there.
            ValueError: a damaged log has values that an index cannot contain.
        """
        if self._key["log"] != _identity(self._log):
            return  # it grew or changed while it was read
        try:
            body = msgspec.msgpack.encode(session)
        except (UnicodeEncodeError, OverflowError) as error:  # half of a pair of surrogates; a number above 2**64
            raise ValueError(f"the log has a value that it cannot contain: {error}") from None
        sources = list(_stamps(dict.fromkeys(_sources(session))))
        if len(body) > _MOST or len(sources) > _MOST_SOURCES:
            return
        header = {**self._key, "sources": dict(_stamps(sources)), "digest": hashlib.sha256(body).hexdigest()}
        root = self._path.parent.parent
        self._path.parent.mkdir(parents=True, exist_ok=True)
        ignore = root / ".gitignore"
        # The folder may be in a repository, where the index of a log is nothing to commit.
        if not ignore.exists():
            write_bytes(ignore, b"*\n")
        write_bytes(self._path, json.dumps(header).encode(), b"\n", body)
        _prune(self._path.parent)


def _content(path: Path) -> tuple[bytes, bytes]:
    """Return header and body of an index.

    Raises:
        OSError: it cannot be read.
        ValueError: it has another form.
    """
    with os.fdopen(os.open(path, _OPEN), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("not a regular file")
        header = file.readline(_MOST_HEADER)
        body = file.read(_MOST + 1)
    if not header.endswith(b"\n") or len(body) > _MOST:
        raise ValueError("not an index")
    return header, body


def _identity(log: Path) -> list[Any]:
    """Return what identifies a log: its path, size, time, and its head and tail.

    Raises:
        OSError: it cannot be read.
    """
    with log.open("rb") as file:
        about = os.fstat(file.fileno())
        ends = hashlib.sha256(file.read(_END))
        file.seek(max(about.st_size - _END, 0))
        ends.update(file.read(_END))
    # The content of the ends, too: a log may be copied with its old time, or rewritten within one tick of the clock.
    return [str(log), about.st_size, about.st_mtime_ns, about.st_ino, ends.hexdigest()]


def _code() -> str:
    """Return a digest of size and time of ctrace's own files, so that an edited checkout reads logs again."""
    found = sorted(each for room in _CODE for each in _below(str(PACKAGES / room)))
    return hashlib.sha256(json.dumps(found).encode("utf-8", "surrogateescape")).hexdigest()


def _below(folder: str) -> Iterator[tuple[str, int, int]]:
    with suppress(OSError), os.scandir(folder) as entries:
        for each in entries:
            if each.is_dir(follow_symlinks=False):
                if each.name != "__pycache__":
                    yield from _below(each.path)
            elif each.name.endswith((".py", ".yaml")):
                about = each.stat()
                yield each.path, about.st_size, about.st_mtime_ns


def _sources(session: Session) -> Iterator[str]:
    """Yield the source files that a log names; advice quotes their lines if they are here."""
    yield from (each.file for each in session.compilations)
    yield from (each.file for each in session.breaks)
    yield from (each.file for each in session.skips)


def _stamps(files: Any) -> dict[str, list[int]]:
    """Return size and time of each file; empty for one that is not here."""
    found: dict[str, list[int]] = {}
    for file in files:
        found[file] = []
        with suppress(OSError, ValueError):
            about = os.stat(file)  # noqa: PTH116 - thousands of them
            found[file] = [about.st_size, about.st_mtime_ns]
    return found


def _stored(session: Session) -> Iterator[Stored]:
    """Yield all payloads that stayed in the log."""
    texts: list[Text | None] = [each.body for each in session.guards.values()]
    texts += [each.body for each in session.code]
    texts += [one.body for each in session.printed.values() for one in each.printed]
    texts += [each.aliases for each in session.printed.values()]
    texts += [each.record for each in session.compile_time.lookups]
    texts += [each.record for each in session.metrics]
    texts += [each.body for each in session.records]
    texts += [each.body for each in session.torch_code]
    return (each for each in texts if isinstance(each, Stored))


def _prune(folder: Path) -> None:
    """Delete the oldest indexes, and what a killed process left."""
    now = time.time()
    known = []
    for path in folder.iterdir():
        with suppress(OSError):
            about = path.stat()
            if path.suffix == ".index" and not path.name.startswith("."):
                known.append((about.st_mtime, path))
            elif now - about.st_mtime > _OLD_SECONDS:
                path.unlink()
    for _, path in sorted(known)[:-_MOST_FILES]:
        with suppress(OSError):
            path.unlink()
