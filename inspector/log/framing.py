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
each one is. A piece without records stands for one that is too long, whose size and lines follow."""
MOST_RECORD = 64 << 20
"""How many bytes one record may have, unless the user raises it."""
_NEXT = re.compile(rb"\n(?!\t)")
# Large enough that reading costs few calls, small enough that pieces of two processes fit into memory.
_PIECE = 1 << 18
# A first line names its event within these bytes; the message about a record too long to read quotes it.
_HEAD = 200
_EVENT = re.compile(rb'\] \{"(\w{1,80})"')
_NO_RECORDS = 1 << 16
"""The size from which a piece without a record is one unreadable line, so that rubbish costs little."""


class TooLong(bytes):
    """Stands for a record that is too long to be read: its beginning."""

    size: int
    """In bytes."""
    lines: int
    most: int
    """How many bytes a record may have."""

    @property
    def why(self) -> str:
        """Say what was not read."""
        found = _EVENT.search(self)
        what = "a line"
        if found:
            what = f"the record of {found[1].decode()!r}"
        return f"{what} is longer than {self.most >> 20} MiB and was skipped; CTRACE_MAX_RECORD=1G reads up to 1 GiB"


def too_long(head: bytes, size: int, lines: int, most: int) -> TooLong:
    """Return what stands for a record that is too long."""
    found = TooLong(head[:_HEAD])
    found.size, found.lines, found.most = size, lines, most
    return found


def pieces(read: Callable[[int], bytes], most: int = MOST_RECORD) -> Iterator[bytes]:
    """Yield a log in pieces that end where a record ends; a record longer than a piece makes a longer piece.

    A record of more than `most` bytes becomes a `TooLong`.
    """
    rest, wanted = b"", _PIECE
    while block := read(wanted):
        known, rest = len(rest), rest + block
        end = _last_start(rest, max(known - 1, 0))
        if end:
            yield rest[:end]
            rest, wanted = rest[end:], _PIECE
        elif len(rest) > most:
            skipped, rest = _skip(read, rest, most)
            yield skipped
            wanted = _PIECE
        else:
            wanted = min(
                max(_PIECE, len(rest)), most - len(rest) + 1
            )  # doubles, so that a long record costs linear time
    if rest:
        yield rest


def _skip(read: Callable[[int], bytes], block: bytes, most: int) -> tuple[TooLong, bytes]:
    """Skip the record that a block begins; return what stands for it, and what was read of the next one."""
    head, size, lines = block[:_HEAD], 0, 0
    while True:
        found = _NEXT.search(block)
        is_end = found is not None and found.end() < len(block)
        if found is not None and is_end:
            end = found.end()
        else:
            end = len(block) - block.endswith(b"\n")
        size, lines = size + end, lines + block.count(b"\n", 0, end)
        if is_end:
            return too_long(head, size, lines, most), block[end:]
        rest, more = block[end:], read(_PIECE)  # what follows a line break decides whether it ends the record
        if not more:
            return too_long(head, size + len(rest), lines + len(rest), most), b""
        block = rest + more


def _last_start(data: bytes, least: int) -> int:
    """Return where the last record starts, if it starts after `least`; else 0."""
    first = _NEXT.search(data, least)
    if first is None or first.end() == len(data):  # a long payload may have any number of lines
        return 0
    at = data.rfind(b"\n", least, len(data) - 1)
    while at >= 0 and data[at + 1] == 9:  # a tab: the line belongs to a payload
        at = data.rfind(b"\n", least, at)
    return at + 1


def records(piece: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield where each record of a piece starts, where its payload starts, and where it ends."""
    start, size, find = 0, len(piece), piece.find
    if piece[:1] == b"\t":  # payload without a record, at the beginning of a log
        found = _NEXT.search(piece)
        if found:
            start = found.end()
        else:
            start = size
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
    if len(piece) > _NO_RECORDS and b"] {" not in piece:
        line, last = piece.find(b"\n") + 1, piece.rfind(b"\n", 0, len(piece) - 1) + 1
        if last:  # the last line may say why a compressed file ends
            yield line, last - line, piece.count(b"\n", line, last), nothing
        yield len(piece) - last, 0, 0, nothing
        return
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
    if is_whole:
        return plain[:-1]
    return plain


def digest_of(raw: bytes) -> bytes:
    """Return the MD5 digest of a payload, as torch computes it (torch/_logging/_internal.py, 2.11 to 2.15)."""
    return _md5(payload_of(raw))


def _md5(payload: bytes) -> bytes:
    return hashlib.md5(payload, usedforsecurity=False).digest()


def _write_frames(path: str, most: int) -> None:
    out = sys.stdout.buffer
    with open(path, "rb", buffering=0) as log:  # noqa: PTH123 - pathlib is slow to import
        for piece in pieces(log.read, most):
            if isinstance(piece, TooLong):
                out.write(HEAD.pack(0, False) + FRAME.pack(piece.size, 0, piece.lines, b""))
                continue
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
        _write_frames(sys.argv[1], int(sys.argv[2]))
    except (OSError, KeyboardInterrupt):  # the reader went away, or does the rest itself
        os._exit(1)
