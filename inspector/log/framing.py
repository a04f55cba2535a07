"""Split a trace log into records, in pieces of bounded size; run as a script, write where they are, with digests.

A record is one line, and its payload the lines after it that start with a tab. This module imports little, because a
second process that runs it goes through a large log ahead of the one that reads it (`second_process.py`).
"""

import hashlib
import os
import re
import struct
import sys
from collections.abc import Callable, Iterator

Frame = tuple[int, int, int, bytes]
"""The bytes of a record's first line, the bytes of its payload, the lines of that, and its digest (empty: unknown)."""
HEAD, FRAME = struct.Struct("=Q?"), struct.Struct("=QQQ16s")
"""What the second process writes for each piece: how many records it has, whether it hashed their payloads, and where
each one is."""
_NEXT = re.compile(rb"\n(?!\t)")
_PIECE = 1 << 18


def pieces(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """Yield a log in pieces that end where a record ends; a record longer than a piece makes a longer piece."""
    rest, wanted = b"", _PIECE
    while block := read(wanted):
        known, rest = len(rest), rest + block
        end = _last_start(rest, max(known - 1, 0))
        if end:
            yield rest[:end]
            rest, wanted = rest[end:], _PIECE
        else:
            wanted = max(_PIECE, len(rest))  # doubles, so that a long record costs linear time
    if rest:
        yield rest


def _last_start(data: bytes, least: int) -> int:
    """Return where the last record starts, if it starts after `least`; else 0."""
    at = data.rfind(b"\n", least, len(data) - 1)
    while at >= 0 and data[at + 1] == 9:  # a tab: the line belongs to a payload
        at = data.rfind(b"\n", least, at)
    return at + 1


def records(piece: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield where each record of a piece starts, where its payload starts, and where it ends."""
    start, size, find = 0, len(piece), piece.find
    if piece[:1] == b"\t":  # payload without a record, at the beginning of a log
        found = _NEXT.search(piece)
        start = found.end() if found else size
        yield 0, 0, start
    for found in _NEXT.finditer(piece, start):
        end = found.end()
        yield start, find(b"\n", start) + 1, end
        start = end
    if start < size:
        yield start, find(b"\n", start) + 1 or size, size


def frames(piece: bytes, *, hashed: bool = True) -> Iterator[Frame]:
    """Yield the frame of each record of a piece."""
    nothing = digest_of(b"")
    for start, line, end in records(piece):
        if end == line:
            yield line - start, 0, 0, nothing
            continue
        raw = piece[line:end]
        lines = raw.count(b"\n")
        yield line - start, end - line, lines, _md5(_without_tabs(raw, lines)) if hashed else b""


def payload_of(raw: bytes) -> bytes:
    """Return a payload without the tabs that indent it."""
    return _without_tabs(raw, raw.count(b"\n"))


def _without_tabs(raw: bytes, lines: int) -> bytes:
    """Return a payload without the tabs that indent it, from the number of its line breaks."""
    is_whole = raw.endswith(b"\n")
    plain = raw.replace(b"\t", b"")  # twice as fast as replacing two bytes, and right if nothing else has a tab
    if len(raw) - len(plain) != lines + (not is_whole):
        plain = raw[1:].replace(b"\n\t", b"\n")
    return plain[:-1] if is_whole else plain


def digest_of(raw: bytes) -> bytes:
    """Return the MD5 digest of a payload, as torch computes it (torch/_logging/_internal.py, 2.11 to 2.15)."""
    return _md5(payload_of(raw))


def _md5(payload: bytes) -> bytes:
    return hashlib.md5(payload, usedforsecurity=False).digest()


def _write_frames(path: str) -> None:
    out = sys.stdout.buffer
    with open(path, "rb", buffering=0) as log:  # noqa: PTH123 - pathlib is slow to import
        for piece in pieces(log.read):
            hashed = not _is_waited_for(out.fileno())
            found = [FRAME.pack(*frame) for frame in frames(piece, hashed=hashed)]
            out.write(b"".join((HEAD.pack(len(found), hashed), *found)))
            out.flush()


def _is_waited_for(pipe: int) -> bool:
    """Whether the reader has taken all that was written, so that it had better hash the next piece itself."""
    try:
        import fcntl
        import termios

        return fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)) == bytes(4)
    except (ImportError, OSError):  # not on Windows
        return False


if __name__ == "__main__":
    try:
        _write_frames(sys.argv[1])
    except (OSError, KeyboardInterrupt):  # the reader went away, or does the rest itself
        os._exit(1)
