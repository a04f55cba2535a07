"""Open a trace log, compressed or not, and recognize one by its content."""

import gzip
import importlib
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TextIO

from ctrace.inspector.errors import SetupError

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_HEAD = 1 << 16
"""Bytes to read to decide whether a file is a log."""
_PIECE = 1 << 10
"""Small, because a failed read of a truncated file returns nothing."""
_NAMES = (".log", ".log.gz", ".log.zst")
_RECORD = re.compile(rb"^[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ [^\n]*?\] \{", re.MULTILINE)
"""The head of a record (torch/_logging/_internal.py, `TorchLogsFormatter`, 2.6 to 2.13)."""
_RANK = re.compile(rb'^[VDIWEC]\d{4} [^\n]*?\] \{[^\n]*"rank": (\d{1,9})[,}]', re.MULTILINE)
_NAMED_RANK = re.compile(r"rank[_-]?(\d{1,9})(?!\d)", re.IGNORECASE)
UNREADABLE = (EOFError, zlib.error, gzip.BadGzipFile)
"""Errors of reading a damaged or truncated compressed file."""


@contextmanager
def opened(path: Path) -> "Iterator[TextIO]":
    """Open a log as text, decompressed; a byte that is not UTF-8 becomes a replacement character.

    Raises:
        OSError: it cannot be read.
        SetupError: it is compressed in a way that this Python cannot read.
    """
    with _binary(path) as file, io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="\n") as text:
        yield text


def _binary(path: Path) -> Any:
    with path.open("rb") as file:
        magic = file.read(4)
    if magic.startswith(_GZIP):
        return gzip.open(path, "rb")
    return _zstd(path) if magic == _ZSTD else path.open("rb")


def _zstd(path: Path) -> "IO[bytes]":
    """Open a file that zstd compressed, with Python's own module (3.14) or the package zstandard."""
    for name in ("compression.zstd", "zstandard"):
        try:
            opener: IO[bytes] = importlib.import_module(name).open(path, "rb")
        except ImportError:
            continue
        return opener
    raise SetupError(f"{path} is compressed with zstd, which this Python cannot read", "pip install zstandard")


def head_of(path: Path) -> bytes:
    """Return the readable beginning of a file, decompressed."""
    found: list[bytes] = []
    with suppress(OSError, *UNREADABLE), _binary(path) as file:
        while len(found) * _PIECE < _HEAD and (piece := file.read(_PIECE)):
            found.append(piece)
    return b"".join(found)


def is_log(path: Path) -> bool:
    """Whether a file is a trace log: by its name, or because it contains a record near its beginning.

    Raises:
        SetupError: it is compressed in a way that this Python cannot read.
    """
    return path.name.endswith(_NAMES) or (path.suffix != ".py" and _RECORD.search(head_of(path)) is not None)


def rank_of(path: Path) -> int | None:
    """Return the rank that wrote a log: from its records, else from the names of the file and its folders."""
    found = _RANK.search(head_of(path))
    if found:
        return int(found[1])
    for part in reversed(path.parts[-3:]):
        if named := _NAMED_RANK.search(part):
            return int(named[1])
    return None
