"""Read a trace log in torch's structured-trace format, one entry at a time.

A record is one line, a glog prefix and a JSON object (torch/_logging/_internal.py, `TorchLogsFormatter`, 2.13); its
payload follows in lines that start with a tab. A broken record becomes a `Broken`, never an exception.
"""

import json
import time
from binascii import hexlify
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto
from pathlib import Path
from sys import intern
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from ctrace.inspector.files.stored import Stored, Text
from ctrace.inspector.log.checksums import Hasher, hasher
from ctrace.inspector.log.files import is_compressed, is_unreadable, opened
from ctrace.inspector.log.framing import digest_of, payload_of, pieces, records

_CONTEXT = frozenset(
    ("rank", "frame_id", "frame_compile_id", "attempt", "compiled_autograd_id", "has_payload", "stack", "subgraph_name")
)
_MOST = 2**31
_POLL_SECONDS = 0.05
_CHUNK = 1 << 16
_MOST_KINDS = 10_000
_PAYLOAD = "the payload of"
NO_RECORD = "not a trace record"
_decode = msgspec.json.Decoder().decode


class Entry(Struct, frozen=True):
    """One record of a trace log."""

    number: int
    """Line number in the file, from 1."""
    kind: str
    """The event's name; for an artifact, `artifact:` and the artifact's name."""
    data: Any
    """The data of the event: a dict, or for the event `str` a pair of file name and number."""
    context: dict[str, Any]
    """Compile id, attempt and rank, if the record has them."""
    payload: str = ""
    thread: str = ""
    """The native id of the thread that wrote the record; forked processes have other ids."""
    is_last: bool = False
    """Whether the log ends with this record and without a line break, so was cut off there."""
    has_odd_bytes: bool = False
    """Whether its first line has bytes that are not text; torch writes ASCII there."""
    stored: Stored | None = None
    """Where the payload is, if it may stay in the log."""

    @property
    def text(self) -> Text:
        """The payload, or where it is in the log."""
        return self.stored or self.payload

    @property
    def compile_id(self) -> str | None:
        """Frame and compile number, such as `0/1`; None outside a compilation."""
        frame, compile_ = self.context.get("frame_id"), self.context.get("frame_compile_id")
        return None if frame is None or compile_ is None else intern(f"{frame}/{compile_}")

    @property
    def attempt(self) -> int:
        """How many times Dynamo had restarted this compilation."""
        return int(self.context.get("attempt") or 0)


class Left(Enum):
    """What of a payload stays in the log until a view needs it."""

    NOT = auto()
    """Nothing: the entry has the payload."""
    PARTLY = auto()
    """The entry has the payload, which need not be kept, and its place."""
    ALL = auto()
    """The entry has its place only."""
    HEADER = auto()
    """The entry has the place of its first line, whose data need not be kept."""


class Broken(Struct, frozen=True):
    """A line that cannot be read."""

    number: int
    why: str
    is_last: bool = False
    """Whether the log ends in the middle of this line."""


def is_other_payload(broken: Broken) -> bool:
    """Whether a record is broken only because its payload does not match its checksum."""
    return broken.why.startswith(_PAYLOAD) and not broken.is_last


def read(
    path: Path,
    *,
    trust: bool = False,
    later: Callable[[str], Left] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Entry | Broken]:
    """Read a finished log, also a compressed one.

    Args:
        path: The log.
        trust: Whether to use payloads that do not match their checksums, as those of an edited log.
        later: What of the payload of a kind of entry stays in the log until it is needed, if that is not compressed.
        progress: Is called with the number of bytes read so far.

    Raises:
        OSError: the file cannot be read.
        SetupError: it is compressed in a way that this Python cannot read.
    """
    with opened(path) as file:
        if is_compressed(path):
            yield from Reader(trust=trust, digest=digest_of).entries(pieces(whole(file)))
            return
        with hasher(path) as digest:
            source = Source(path, later) if later is not None else None
            reader = Reader(trust=trust, digest=digest, source=source, progress=progress)
            yield from reader.entries(pieces(file.read))


DAMAGED = "the compressed file is damaged or cut short"


def whole(file: BinaryIO) -> Callable[[int], bytes]:
    """Read a compressed file that may be damaged or cut short; such a file ends in a line that is no record."""

    def blocks() -> Iterator[bytes]:
        some: Callable[[int], bytes] = getattr(file, "read1", file.read)  # a failed `read` loses what it read before
        last = b"\n"
        try:
            while block := some(_CHUNK):
                yield block
                last = block[-1:]
        except Exception as error:
            if not is_unreadable(error):
                raise
            yield (b"" if last == b"\n" else b"\n") + f"{DAMAGED} ({error})".encode()

    return _joining(blocks())


def _joining(blocks: Iterator[bytes]) -> Callable[[int], bytes]:
    """Return a function that reads at least so many bytes, or all that are left."""

    def read(size: int) -> bytes:
        found: list[bytes] = []
        for block in blocks:
            found.append(block)
            size -= len(block)
            if size <= 0:
                break
        return b"".join(found)

    return read


def follow(path: Path, ended: Callable[[], bool]) -> Iterator[Entry | Broken]:
    """Read a log while it is being written, until `ended()` returns True and nothing is left to read.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        yield from follow_bytes(lambda: file.read(_CHUNK), ended)


def follow_bytes(read_more: Callable[[], bytes], ended: Callable[[], bool]) -> Iterator[Entry | Broken]:
    """Read a log in chunks as they arrive, until `ended()` returns True and nothing is left to read."""

    def read(size: int) -> bytes:
        found: list[bytes] = []
        while sum(map(len, found)) < size:
            last = ended()  # checked before reading, so that a write after the check is not lost
            data = read_more()
            if data:
                found.append(data)
            elif found or last:
                break
            else:
                time.sleep(_POLL_SECONDS)
        return b"".join(found)

    yield from Reader(digest=digest_of).entries(pieces(read))


def parse(lines: Iterable[str], *, trust: bool = False) -> Iterator[Entry | Broken]:
    """Turn lines into entries."""
    read_lines = _joining(line.encode("utf-8", "replace") for line in lines)
    yield from Reader(trust=trust, digest=digest_of).entries(pieces(read_lines))


class Source(dict[str, Left]):
    """Knows which payloads stay in a log, by the kinds of their entries."""

    def __init__(self, path: Path, later: Callable[[str], Left]) -> None:
        super().__init__()
        self.path = str(path.absolute())
        self._later = later

    def __missing__(self, kind: str) -> Left:
        """Ask once for each kind; a damaged log may have any number of them."""
        found = self._later(kind)
        if len(self) < _MOST_KINDS:
            self[kind] = found
        return found

    def place(self, offset: int, header: bytes, raw: bytes, left: Left) -> Stored | None:
        """Return where a payload is, or the first line before it."""
        if left is Left.HEADER:
            return Stored(self.path, offset - len(header), len(header))
        return Stored(self.path, offset, len(raw)) if raw else None


class Reader:
    """Turns pieces of a log into entries."""

    def __init__(
        self,
        *,
        digest: Hasher,
        trust: bool = False,
        source: "Source | None" = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self._digest = digest
        self._trust = trust
        self._source = source
        self._progress = progress

    def entries(self, found: Iterator[bytes]) -> Iterator[Entry | Broken]:
        """Yield the entries of all pieces."""
        number, base = 1, 0
        for piece in found:
            cut = -1 if piece.endswith(b"\n") else len(piece)
            for start, line, end in records(piece):
                raw = piece[line:end]
                if line == start:
                    yield from self._lone(number, raw)
                    number -= 1
                else:
                    yield self.entry(number, piece[start:line], raw, base + line, is_last=end == cut)
                number += 1 + raw.count(b"\n")
            base += len(piece)
            if self._progress is not None:
                self._progress(base)

    def _lone(self, number: int, raw: bytes) -> Iterator[Broken]:
        """Report the lines of a payload that belongs to no record, and keep the digests in step."""
        self._digest(raw)
        for at in range(number, number + raw.count(b"\n") + (not raw.endswith(b"\n"))):
            yield Broken(at, "a payload without a record")

    def entry(self, number: int, header: bytes, raw: bytes, offset: int, *, is_last: bool) -> Entry | Broken:
        """Return the entry of a record with a line number, from its first line and from the lines of its payload."""
        digest = self._digest(raw) if raw else None
        at = header.find(b"] {")
        if at < 0:
            return Broken(number, NO_RECORD, is_last)
        try:
            record, has_odd_bytes = _object(header[at + 2 :])
        except (ValueError, RecursionError) as error:
            return Broken(number, f"unreadable JSON ({error})", is_last)
        names = [name for name in record if name not in _CONTEXT]
        if not names:
            return Broken(number, "a record without an event", is_last)
        if not _has_numbers(record):
            return Broken(number, f"impossible numbers of a compilation ({names[0]!r})", is_last)
        known = record.get("has_payload")
        if known is not None and not self._trust and known != hexlify(digest or digest_of(raw)).decode():
            return Broken(number, f"{_PAYLOAD} {names[0]!r} is cut short or damaged", is_last)
        kind, data = names[0], record[names[0]]
        for name in names:
            del record[name]
        if kind == "artifact" and isinstance(data, dict):
            kind = f"artifact:{data.get('name')}"
        thread = _thread(header[:at])
        left = Left.NOT if self._source is None else self._source[kind]
        stored = None
        if left is not Left.NOT and self._source is not None:
            stored = self._source.place(offset, header, raw, left)
        text = "" if left is Left.ALL and raw else payload_of(raw).decode("utf-8", "replace")
        return Entry(number, kind, data, record, text, thread, is_last, has_odd_bytes, stored)


def _object(text: bytes) -> tuple[dict[str, Any], bool]:
    """Decode the JSON of a header, which starts with a brace; return whether it has bytes that are not text, too.

    Raises:
        ValueError, RecursionError: it cannot be read.
    """
    try:
        return _decode(text), False
    except (ValueError, RecursionError):
        decoded = text.decode("utf-8", "replace")
        return json.loads(decoded), "\ufffd" in decoded  # also takes NaN


def _has_numbers(record: dict[str, Any]) -> bool:
    """Whether the numbers of a frame, a compilation and an attempt are possible, or None, as outside of one."""
    frame, compilation, attempt = record.get("frame_id"), record.get("frame_compile_id"), record.get("attempt")
    return _is_number(frame) and _is_number(compilation) and _is_number(attempt)


def _is_number(value: Any) -> bool:
    return value is None or (type(value) is int and 0 <= value < _MOST)


def _thread(prefix: bytes) -> str:
    """Return the thread id from a line's prefix, such as `V0728 07:00:00.123456 4711 torch/_dynamo/utils.py:2350`."""
    words = prefix.split(maxsplit=3)
    return words[2].decode("utf-8", "replace") if len(words) > 3 else ""
