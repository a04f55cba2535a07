"""Open a trace log (`opened`), compressed or not, recognize one by its content (`is_log`), and join the files into
which one was rotated (`join`).

logrotate and its like number the parts (`x.log`, the newest, then `x.log.1`, `x.log.2.gz`) or date them
(`x.log-20260721`). A new process of torch opens a log of another name, so parts of one name belong together.
"""

import gzip
import importlib
import re
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from ctrace.inspector.errors import RunError, SetupError
from ctrace.inspector.files.scratch import scratch
from ctrace.inspector.log.reading_limits import UNPACKED, most_unpacked

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_HEAD = 1 << 16
"""Bytes to read to decide whether a file is a log."""
_PIECE = 1 << 10
"""Small, because a failed read of a truncated file returns nothing."""
DAMAGED = "the compressed file is damaged or cut short"
STOPPED = "the compressed file was not read to its end"
_FEED = 1 << 10
"""How much of a zstd file is decompressed at once: a kilobyte can become 32 MB."""
NAMES = (".log", ".log.gz", ".log.zst")
_RECORD = re.compile(rb"^[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ [^\n]*?\] \{", re.MULTILINE)
"""The head of a record (torch/_logging/_internal.py, `TorchLogsFormatter`, 2.6 to 2.13)."""
_RANK = re.compile(rb'^[VDIWEC]\d{4} [^\n]*?\] \{[^\n]*"rank": (\d{1,9})[,}]', re.MULTILINE)
_BEGINNING = re.compile(rb'\] \{"(?:artifact": \{"name": "(?:torch_version|ctrace_start)"|str": \[[^\n]*, 0\])')
_NAMED_RANK = re.compile(r"rank[_-]?(\d{1,9})(?!\d)", re.IGNORECASE)


def is_unreadable(error: Exception) -> bool:
    """Whether an error is that of reading a damaged or truncated compressed file."""
    known = (EOFError, zlib.error, gzip.BadGzipFile)
    return isinstance(error, known) or type(error).__name__ == "ZstdError"  # of modules that may not be here


def unreadable(log: Path, error: OSError) -> RunError:
    """Return the error to raise for a log that the system does not let us read."""
    is_forbidden = isinstance(error, PermissionError)
    todo = "check its permissions" if is_forbidden else "name a log that TORCH_TRACE wrote"
    return RunError(f"{log} cannot be read: {error.strerror or error}", todo)


@contextmanager
def opened(path: Path) -> "Iterator[BinaryIO]":
    """Open a log, decompressed.

    Raises:
        OSError: it cannot be read.
        SetupError: it is compressed in a way that this Python cannot read.
    """
    with _binary(path) as file:
        yield file if not is_compressed(path) else cast("BinaryIO", _Limited(file, path.stat().st_size))


class UnpackedTooLargeError(EOFError):
    """A compressed file unpacks to more than ctrace reads."""


class _Limited:
    """Reads a compressed file up to a limit, since a small one may unpack to any size."""

    def __init__(self, file: Any, size: int) -> None:
        self._some: Callable[[int], bytes] = getattr(file, "read1", file.read)  # a failed `read` loses what it read
        self._most = self._left = most_unpacked(size)
        self._size = size

    def read(self, size: int) -> bytes:
        """Read some bytes, or none at the end.

        Raises:
            UnpackedTooLargeError: the limit is reached.
        """
        if self._left <= 0:
            what = f"{self._size:,} bytes unpack to more than {self._most >> 20} MiB; {UNPACKED}=10G reads up to 10 GiB"
            raise UnpackedTooLargeError(what)
        data = self._some(size)
        self._left -= len(data)
        return data


def is_compressed(path: Path) -> bool:
    """Whether a file is compressed with gzip or zstd.

    Raises:
        OSError: it cannot be read.
    """
    return _magic(path).startswith((_GZIP, _ZSTD))


def _magic(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4)


def _binary(path: Path) -> Any:
    magic = _magic(path)
    if magic.startswith(_GZIP):
        return gzip.open(path, "rb")
    if magic == _ZSTD:
        return _zstd(path)
    return path.open("rb")


def _zstd(path: Path) -> Any:
    """Open a file that zstd compressed, with Python's own module (3.14) or the package zstandard."""
    try:
        return importlib.import_module("compression.zstd").open(path, "rb")
    except ImportError:
        pass
    try:
        zstandard = importlib.import_module("zstandard")
    except ImportError:
        what = f"{path} is compressed with zstd, which this Python cannot read"
        raise SetupError(what, "pip install zstandard") from None
    return _Frames(path.open("rb"), lambda: zstandard.ZstdDecompressor().decompressobj())


class _Frames:
    """Reads all frames of a file; zstandard's own reader stops after the first, and at a cut as at the end."""

    def __init__(self, file: BinaryIO, decompressor: Callable[[], Any]) -> None:
        self._file = file
        self._new = decompressor
        self._frame = decompressor()
        self._left = memoryview(b"")
        self._is_inside = False

    def __enter__(self) -> "_Frames":
        return self

    def __exit__(self, *_error: object) -> None:
        self._file.close()

    def read(self, size: int) -> bytes:
        """Read about so many bytes, or none at the end.

        Raises:
            EOFError: the file ends inside of a frame.
        """
        while data := self._left or memoryview(self._file.read(size)):
            self._left, self._is_inside = data[_FEED:], True
            found: bytes = self._frame.decompress(data[:_FEED])
            if self._frame.eof:
                self._left = memoryview(self._frame.unused_data + self._left)
                self._frame, self._is_inside = self._new(), False
            if found:
                return found
        if self._is_inside:
            raise EOFError("it ends inside of a frame")
        return b""


def head_of(path: Path) -> bytes:
    """Return the readable beginning of a file, decompressed."""
    found: list[bytes] = []
    try:
        with _binary(path) as file:
            while sum(map(len, found)) < _HEAD and (piece := file.read(_PIECE)):
                found.append(piece[:_HEAD])  # a kilobyte of zstd may be 32 MB
    except Exception as error:
        if not isinstance(error, OSError) and not is_unreadable(error):
            raise
    return b"".join(found)


def is_log(path: Path) -> bool:
    """Whether a file is a trace log: by its name, or because it contains a record near its beginning.

    Raises:
        SetupError: it is compressed in a way that this Python cannot read.
    """
    # The name is enough, so that a damaged or empty log is reported as a log and not as a program.
    if path.name.endswith(NAMES):
        return True
    # An archive may hold a log uncompressed, whose records a search would find.
    return path.suffix != ".py" and _RECORD.search(head_of(path)) is not None and not container_of(path)


_CONTAINERS = (
    (b"PK\x03\x04", 0, "a zip archive"),
    (b"ustar", 257, "a tar archive"),
    (b"BZh", 0, "compressed with bzip2"),
    (b"\xfd7zXZ", 0, "compressed with xz"),
    (_GZIP, 0, "compressed twice"),
    (_ZSTD, 0, "compressed twice"),
)


def container_of(path: Path) -> str:
    """Say what a file is that may have logs inside, and that ctrace does not unpack; empty for any other file.

    Raises:
        SetupError: it is compressed in a way that this Python cannot read.
    """
    head = head_of(path)
    return next((what for magic, at, what in _CONTAINERS if head.startswith(magic, at)), "")


def begins_inside(path: Path) -> bool:
    """Whether a log is a later piece of one: torch writes its version, or the first file name, at the beginning."""
    head = head_of(path)
    return _RECORD.search(head) is not None and _BEGINNING.search(head) is None


def first_record(path: Path) -> tuple[str, int]:
    """Return month, day and time of the first record, as the log has them, and its process; empty and 0 without one."""
    found = _RECORD.search(head_of(path))
    if found is None:
        return "", 0
    day, time, pid, *_ = found[0].split(None, 3)
    return f"{day[1:].decode()} {time.decode()}", int(pid)


def rank_of(path: Path) -> int | None:
    """Return the rank that wrote a log: from its records, else from the names of the file and its folders."""
    found = _RANK.search(head_of(path))
    if found:
        return int(found[1])
    # The file's own name first, then its folders: `rank_1/attempt_0/dedicated.log`.
    for part in reversed(path.parts[-3:]):
        if named := _NAMED_RANK.search(part):
            return int(named[1])
    return None


_PART = re.compile(
    r"(?P<stem>.+?\.(?:log|txt|trace|jsonl?))(?:\.(?P<number>\d{1,6})|-(?P<date>\d{8}(?:-?\d{1,10})?))?(?:\.(?:gz|zst))?"
)
_NEWEST = (2, 0, "")
# Chosen: few calls, little memory.
_BLOCK = 1 << 20
# Chosen: one line of a message.
_MOST_NAMES = 8


def name_and_age(path: Path) -> tuple[str, tuple[int, int, str]]:
    """Return the name that all parts of a log share, and a key that sorts them from the oldest to the newest."""
    match = _PART.fullmatch(path.name)
    if match is None:
        return path.name, _NEWEST
    if match["number"] is not None:
        return match["stem"], (1, -int(match["number"]), "")
    if match["date"] is not None:
        return match["stem"], (0, 0, match["date"])
    return match["stem"], _NEWEST


def grouped(paths: Iterable[Path]) -> Iterator[tuple[Path, ...]]:
    """Yield the files of folders by log, the parts of a log from the oldest to the newest."""
    logs: dict[tuple[Path, str], list[Path]] = {}
    for path in paths:
        logs.setdefault((path.parent, name_and_age(path)[0]), []).append(path)
    for parts in logs.values():
        ordered = sorted(parts, key=lambda path: name_and_age(path)[1])
        if len(parts) == 1 or _are_parts(ordered):
            yield tuple(ordered)
        else:
            yield from ((path,) for path in ordered)


def _are_parts(ordered: list[Path]) -> bool:
    """Whether files of one name are parts of one log: `x.log.0` and `x.log.1` without an `x.log` may be two ranks."""
    ages = [name_and_age(path)[1] for path in ordered]
    is_newest_there = ages[-1] == _NEWEST and (1, 0, "") not in ages
    ranks = {rank for path in ordered if (rank := rank_of(path)) is not None}
    return is_newest_there and len(set(ages)) == len(ages) and len(ranks) < 2


def _gap_in(parts: Iterable[Path]) -> str:
    """Name the parts that are missing between those that are there; empty if none is."""
    numbers = {-name_and_age(path)[1][1] for path in parts}
    missing = [str(each) for each in range(1, max(numbers, default=0)) if each not in numbers]
    return ", ".join(missing[:_MOST_NAMES]) + (" and more" if len(missing) > _MOST_NAMES else "")


def rotation_note(parts: tuple[Path, ...]) -> str:
    """Say that the files of a rotated log are read as one, and which are missing."""
    gap = _gap_in(parts)
    missing = ""
    if gap:
        missing = f"; missing between them: {gap}"
    return f"{parts[-1].name} was rotated: its {len(parts)} files are read as one log{missing}"


@contextmanager
def one_file(log: Path, parts: tuple[Path, ...]) -> Iterator[Path]:
    """Yield the file of a log; for a rotated one, a copy of its parts, which is deleted afterwards.

    Raises:
        RunError, SetupError: see `join`.
    """
    if not parts:
        yield log
        return
    with scratch() as folder:
        copy = folder / log.name
        join(parts, copy)
        yield copy


def join(parts: Iterable[Path], to: Path) -> None:
    """Write the parts of a log to one file, decompressed.

    Raises:
        RunError: a part cannot be read, or there is no space left.
        SetupError: a part is compressed in a way that this Python cannot read.
    """
    try:
        with to.open("wb") as whole:
            for part in parts:
                _copy(part, whole)
    except OSError as error:
        what = f"the parts of {to.name} cannot be joined in {to.parent}: {error.strerror or error}"
        raise RunError(what, "make them readable, or name a folder with space for a copy: TMPDIR=/path") from None


def _copy(part: Path, whole: BinaryIO) -> None:
    """Copy one part as far as it can be read; the reader reports the records that a damaged one lacks."""
    try:
        with opened(part) as file:
            shutil.copyfileobj(file, whole, _BLOCK)
    # Before the general case, of which it is one: the file is whole, and the user may raise the limit.
    except UnpackedTooLargeError as error:
        whole.write(f"\n{STOPPED} ({part.name}: {error})\n".encode())
    except Exception as error:
        if not is_unreadable(error):
            raise
        whole.write(f"\n{DAMAGED} ({part.name}: {error})\n".encode())
