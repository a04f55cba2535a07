"""Find the records of a log and hash their payloads: in a large log, a second process does, ahead of the reader."""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from ctrace.inspector.log import framing
from ctrace.inspector.log.framing import FRAME, HEAD, Frame, frames, pieces

_LARGE = 24 << 20
"""Below this size, one process is done before a second one has started."""
Piece = tuple[bytes, Iterable[Frame]]
"""A part of a log, and the frames of its records."""


def framed(found: Iterable[bytes]) -> Iterator[Piece]:
    """Yield pieces of a log with their frames."""
    return ((piece, frames(piece)) for piece in found)


def framed_file(path: Path, file: BinaryIO) -> Iterator[Piece]:
    """Yield the pieces of a log that is not compressed.

    Args:
        path: The log.
        file: The same, at its beginning.

    Raises:
        OSError: it cannot be read.
    """
    child = _started(path) if _is_worth_it(path) else None
    if child is not None:
        try:
            yield from _from(child, file)
        finally:
            _end(child)
    yield from framed(pieces(file.read))  # all of it, or what the second process left


def _started(path: Path) -> "subprocess.Popen[bytes] | None":
    """Start the second process; None if there are no more processes, so that it only takes longer."""
    command = [sys.executable, "-I", "-S", framing.__file__, str(path.absolute())]
    with suppress(OSError):
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=HEAD.size
        )
    return None


def _from(child: "subprocess.Popen[bytes]", file: BinaryIO) -> Iterator[Piece]:
    """Yield the pieces whose frames a second process found, until it ends; nothing of a later one is read."""
    assert child.stdout is not None
    read = child.stdout.read
    while len(head := read(HEAD.size)) == HEAD.size:
        number, hashed = HEAD.unpack(head)
        rows = read(number * FRAME.size)
        if len(rows) != number * FRAME.size:
            return
        found = list(FRAME.iter_unpack(rows))
        if not hashed:
            found = [(first, rest, lines, b"") for first, rest, lines, _ in found]
        size = sum(each[0] + each[1] for each in found)
        piece = file.read(size)
        yield piece, found if len(piece) == size else frames(piece)  # the log may have been cut since


def _end(child: "subprocess.Popen[bytes]") -> None:
    assert child.stdout is not None
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
