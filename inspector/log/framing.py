"""Split a trace log into records, in pieces of bounded size; run as a script, write the digest of every payload.

A record is one line, and its payload the lines after it that start with a tab. This module imports little, because a
second process that runs it hashes the payloads of a large log while the first one reads it (`checksums.py`).
"""

import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterator

_NEXT = re.compile(rb"\n(?!\t)")
_PIECE = 1 << 19


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
    start, size, find, search = 0, len(piece), piece.find, _NEXT.search
    if piece[:1] == b"\t":  # payload without a record, at the beginning of a log
        found = search(piece)
        start = found.end() if found else size
        yield 0, 0, start
    while start < size:
        line = find(b"\n", start) + 1 or size
        if piece[line : line + 1] == b"\t":
            found = search(piece, line)
            end = found.end() if found else size
        else:
            end = line
        yield start, line, end
        start = end


def payload_of(raw: bytes) -> bytes:
    """Return a payload without the tabs that indent it."""
    end = len(raw) - raw.endswith(b"\n")
    return b"\n".join(raw[1:end].split(b"\n\t"))  # in half the time of `replace`


def checksum(payload: bytes) -> bytes:
    """Return the MD5 digest of a payload, as torch computes it (torch/_logging/_internal.py, 2.11 to 2.15)."""
    return hashlib.md5(payload, usedforsecurity=False).digest()


def digest_of(raw: bytes) -> bytes:
    """Return the MD5 digest of the payload in these lines."""
    return checksum(payload_of(raw))


def _write_digests(path: str) -> None:
    out = sys.stdout.buffer
    with open(path, "rb", buffering=0) as log:  # noqa: PTH123 - pathlib is slow to import
        for piece in pieces(log.read):
            found = [digest_of(piece[line:end]) for _, line, end in records(piece) if end > line]
            out.write(b"".join(found))
            out.flush()


if __name__ == "__main__":
    try:
        _write_digests(sys.argv[1])
    except (OSError, KeyboardInterrupt):  # the reader went away, or hashes the rest itself
        os._exit(1)
