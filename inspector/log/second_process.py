"""Find the records of a log and hash their payloads: in a large log, a second process does, ahead of the reader."""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from ctrace.inspector.log import framing
from ctrace.inspector.log.framing import FRAME, HEAD, Frame, TooLong, frames, pieces, too_long

_LARGE = 24 << 20
"""Below this size, one process is done before a second one has started."""
# What a message about an overlong line quotes of it.
_HEAD = 200
Piece = tuple[bytes, Iterable[Frame]]
"""A part of a log, and the frames of its records."""


def framed(found: Iterable[bytes]) -> Iterator[Piece]:
    """Yield pieces of a log with their frames; a record that is too long has none."""
    return ((piece, () if isinstance(piece, TooLong) else frames(piece)) for piece in found)


def framed_file(path: Path, file: BinaryIO, most: int) -> Iterator[Piece]:
    """Yield the pieces of a log that is not compressed.

    Args:
        path: The log.
        file: The same, at its beginning.
        most: How many bytes a record may have.

    Raises:
        OSError: it cannot be read.
    """
    child = None
    if _is_worth_it(path):
        child = _started(path, most)
    if child is not None:
        try:
            yield from _from(child, file, most)
        finally:
            _end(child)
    yield from framed(pieces(file.read, most))  # all of it, or what the second process left


def _started(path: Path, most: int) -> "subprocess.Popen[bytes] | None":
    """Start the second process; None if there are no more processes, so that it only takes longer."""
    # Isolated and without site-packages, of which it needs nothing.
    command = [sys.executable, "-I", "-S", framing.__file__, str(path.absolute()), str(most)]
    with suppress(OSError):
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=HEAD.size
        )
    return None


def _from(child: "subprocess.Popen[bytes]", file: BinaryIO, most: int) -> Iterator[Piece]:
    """Yield the pieces whose frames a second process found, until it ends; nothing of a later one is read."""
    assert child.stdout is not None
    read = child.stdout.read
    while len(head := read(HEAD.size)) == HEAD.size:
        number, hashed = HEAD.unpack(head)
        rows = read((number or 1) * FRAME.size)
        # The process was killed in the middle of a write; the rest is read here.
        if len(rows) != (number or 1) * FRAME.size:
            return
        if not number:
            size, _, lines, _ = FRAME.unpack(rows)
            at = file.tell()
            yield too_long(file.read(min(size, _HEAD)), size, lines, most), ()
            file.seek(at + size)
            continue
        found = list(FRAME.iter_unpack(rows))
        if not hashed:
            found = [(first, rest, lines, b"") for first, rest, lines, _ in found]
        size = sum(each[0] + each[1] for each in found)
        piece = file.read(size)
        yield piece, found if len(piece) == size else frames(piece)  # the log may have been cut since


def _end(child: "subprocess.Popen[bytes]") -> None:
    assert child.stdout is not None
    # The reader may stop early, and the process would write to a pipe that nobody empties.
    child.stdout.close()
    with suppress(OSError):
        child.kill()
    child.wait()


def _is_worth_it(path: Path) -> bool:
    if (os.cpu_count() or 1) < 2 or not Path(framing.__file__).is_file():
        return False
    with suppress(OSError):
        return path.stat().st_size >= _LARGE
    return False
