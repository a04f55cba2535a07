"""Read a trace log in torch's structured-trace format, one entry at a time (`read`, and `follow` while it grows).

A record is one line, a glog prefix and a JSON object (torch/_logging/_internal.py, `TorchLogsFormatter`, 2.13); its
payload follows in lines that start with a tab. A broken record becomes a `Broken`, never an exception.

The form of a payload that does not match its checksum tells an edit of the log from damage (`form_of`). An edit, such
as a redaction, replaces words: text stays text, JSON stays JSON, and each record keeps its own lines. Damage loses,
adds or moves bytes wherever they are, so it leaves half of something: of a letter, of JSON, of the first line of
another record. How many payloads do not match says nothing: of a cold compile, few contain a name.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto
from functools import lru_cache
from pathlib import Path
from sys import intern
from typing import Any, BinaryIO

from msgspec import MsgspecError, Raw, Struct, field
from msgspec.json import Decoder

from ctrace.inspector.facts.stored import Stored, Text
from ctrace.inspector.log.files import DAMAGED, STOPPED, UnpackedTooLargeError, is_compressed, is_unreadable, opened
from ctrace.inspector.log.framing import TooLong, digest_of, payload_of, pieces
from ctrace.inspector.log.headers import Context, Headers
from ctrace.inspector.log.reading_limits import longest_record
from ctrace.inspector.log.second_process import Piece, framed, framed_file


class Form(Enum):
    """The form of a payload."""

    TEXT = auto()
    JSON = auto()


_HALVES = re.compile(
    rb'"(?:has_payload|frame_id|frame_compile_id|attempt)": [^\n,{}]{1,40}\}$'
    rb'|[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d{1,9} \d{1,20} [^\n]{1,300}:\d{1,9}\] \{"',
    re.MULTILINE,
)
"""The end and the beginning of a record's first line (torch/_logging/_internal.py, 2.6 to 2.13)."""
_check = Decoder(Raw).decode


def form_of(kind: str, data: Any, raw: bytes) -> Form | None:
    """Return the form of a changed payload; None: it is damaged.

    Args:
        kind: The event.
        data: Its data; an artifact's names an encoding.
        raw: The lines of the payload.
    """
    text = payload_of(raw)
    # A checksum promises a payload. Zeros are what a file system leaves of blocks that it lost in a crash.
    if not raw or b"\0" in text or not _is_text(text):
        return None
    # An artifact of JSON may be a bare string (`recompile_reasons`, torch 2.13, _dynamo/guards.py:5400).
    is_json = kind == "chromium_event" or (isinstance(data, dict) and data.get("encoding") == "json")
    if is_json and text.lstrip().startswith((b"{", b"[")):
        if not _is_json(text):
            return None
        return Form.JSON
    # A mark that is no JSON object was cut; in text, half of another record shows that bytes were lost between.
    if kind == "chromium_event" or _HALVES.search(text):
        return None
    return Form.TEXT


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_json(text: bytes) -> bool:
    try:
        _check(text)
    except (MsgspecError, RecursionError):
        try:
            json.loads(text)  # also takes NaN
        except (ValueError, RecursionError):
            return False
    return True


# How soon `--follow` shows what a job wrote, without keeping a core busy.
_POLL_SECONDS = 0.05
# Chosen: few calls, little memory.
_CHUNK = 1 << 16
# A log chooses its kinds and threads; without a bound, a damaged one would fill the memory with names.
_MOST_KINDS = 10_000
_THREAD_AT = len("V0728 07:00:00.123456 ")
NO_RECORD = "not a trace record"
_NO_JSON = "unreadable JSON"


class LogEntry(Struct, frozen=True):
    """One record of a trace log."""

    number: int
    """Line number in the file, from 1."""
    kind: str
    """The event's name; for an artifact, `artifact:` and the artifact's name."""
    data: Any
    """The data of the event: a dict, or for the event `str` a pair of file name and number."""
    context: Context
    """Compile id and attempt, if the record has them."""
    payload: str = ""
    thread: str = ""
    """The native id of the thread that wrote the record; forked processes have other ids."""
    is_last: bool = False
    """Whether the log ends with this record and without a line break, so was cut off there."""
    has_odd_bytes: bool = False
    """Whether its first line has bytes that are not text; torch writes ASCII there."""
    stored: Stored | None = None
    """Where the payload is, if it may stay in the log."""
    lines: bytes = b""
    """The lines of the payload, if its decoder takes them as they are."""
    changed: Form | None = None
    """The form of a payload that was changed after torch wrote it; None: it matches its checksum or has none."""

    @property
    def text(self) -> Text:
        """The payload, or where it is in the log."""
        return self.stored or self.payload

    @property
    def compile_id(self) -> str | None:
        """Frame and compile number, such as `0/1`; None outside a compilation."""
        return _compile_id(self.context.frame_id, self.context.frame_compile_id)

    @property
    def attempt(self) -> int:
        """How many times Dynamo had restarted this compilation."""
        return self.context.attempt or 0


class Generations(Struct):
    """Counts the resets of Dynamo in a log: after torch._dynamo.reset(), compile ids start again from `0/0`."""

    number: int = 1
    """One more with each reset."""
    started: set[str] = field(default_factory=set)
    """Compile ids that started in this generation; one that starts again shows that Dynamo was reset."""

    def generation_of(self, entry: LogEntry) -> int:
        """Return the number of an entry's generation; pass entries in their order."""
        if entry.kind == "dynamo_start" and entry.attempt == 0 and entry.compile_id is not None:
            if entry.compile_id in self.started:
                self.number += 1
                self.started.clear()
            self.started.add(entry.compile_id)
        return self.number


@lru_cache  # records of one compilation follow each other
def _compile_id(frame: int | str | None, compile_: int | None) -> str | None:
    if frame is None or compile_ is None:
        return None
    return intern(f"{frame}/{compile_}")


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
    RAW = auto()
    """The entry has its lines, with the tabs that indent them."""


_NOT, _ALL, _RAW = Left.NOT, Left.ALL, Left.RAW
"""Looking a member up takes long (Python 3.11), and each record needs three."""


class Broken(Struct, frozen=True):
    """A line that cannot be read."""

    number: int
    why: str
    is_last: bool = False
    """Whether the log ends in the middle of this line."""


def read(
    path: Path,
    *,
    later: Callable[[str], Left] | None = None,
    types: Callable[[str], Any] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[LogEntry | Broken]:
    """Read a finished log, also a compressed one.

    Args:
        path: The log.
        later: What of the payload of a kind of entry stays in the log until it is needed, if that is not compressed.
        types: As what to decode the data of a kind of entry, if what is not kept stays in the log.
        progress: Is called with the number of bytes read so far.

    Raises:
        OSError: the file cannot be read.
        SetupError: it is compressed in a way that this Python cannot read.
    """
    most = longest_record()
    with opened(path) as file:
        if is_compressed(path):
            yield from Reader().entries(framed(pieces(whole(file), most)))
            return
        source = None
        if later is not None:
            source = PayloadSource(path, later)
        headers = Headers(types if later is not None else None)
        reader = Reader(source=source, headers=headers, progress=progress)
        yield from reader.entries(framed_file(path, file, most))


# Ours: the mark and the text of an error, which are shown as one line.
_LONGEST_MARK = 400


def _marked(line: bytes) -> str:
    """Return why a compressed file ends, if a line says so."""
    is_mark = line.startswith((DAMAGED.encode(), STOPPED.encode()))
    if is_mark:
        return line[:_LONGEST_MARK].decode("utf-8", "replace").strip()
    return ""


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
            if isinstance(error, UnpackedTooLargeError):
                what = STOPPED
            else:
                what = DAMAGED
            yield (b"" if last == b"\n" else b"\n") + f"{what} ({error})".encode()

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


def settled(item: LogEntry | Broken, following: LogEntry | Broken) -> LogEntry | Broken:
    """Return a changed record, now that the one after it is known; if that is damaged, its end was lost."""
    # Changed JSON was checked as a whole; only text may be cut without a sign.
    if not isinstance(item, LogEntry) or item.changed is not Form.TEXT:
        return item
    if isinstance(following, Broken):
        if following.why.startswith((NO_RECORD, _NO_JSON)):
            return _cut(item)
        return item
    # A record with a thread has a whole first line, so what comes before it is whole as well.
    if following.thread:
        return item
    return _cut(item)


def _cut(entry: LogEntry) -> Broken:
    return Broken(entry.number, _lost(entry.kind, entry.context), entry.is_last)


def _lost(kind: str, context: Context) -> str:
    """Say what a record with a damaged payload was about."""
    compile_id = _compile_id(context.frame_id, context.frame_compile_id)
    return f"the payload of {kind!r:.80}{f' of {compile_id:.20}' if compile_id else ''} is cut short or damaged"


def follow(path: Path, ended: Callable[[], bool]) -> Iterator[LogEntry | Broken]:
    """Read a log while it is being written, until `ended()` returns True and nothing is left to read.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        yield from follow_bytes(lambda: file.read(_CHUNK), ended)


def follow_bytes(read_more: Callable[[], bytes], ended: Callable[[], bool]) -> Iterator[LogEntry | Broken]:
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

    yield from Reader().entries(framed(pieces(read, longest_record())))


def parse(lines: Iterable[str]) -> Iterator[LogEntry | Broken]:
    """Turn lines into entries."""
    read_lines = _joining(line.encode("utf-8", "replace") for line in lines)
    yield from Reader().entries(framed(pieces(read_lines, longest_record())))


class PayloadSource(dict[str, Left]):
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
        if raw:
            return Stored(self.path, offset, len(raw))
        return None


class Reader:
    """Turns pieces of a log into entries."""

    def __init__(
        self,
        *,
        source: "PayloadSource | None" = None,
        headers: Headers | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self._source = source
        self._headers = headers or Headers()
        self._progress = progress
        self._threads: dict[bytes, str] = {}
        self._changed = 0
        """How many payloads do not match their checksums and are whole."""

    def entries(self, found: Iterable[Piece]) -> Iterator[LogEntry | Broken]:
        """Yield the entries of all pieces."""
        number, base, entry, held, changed = 1, 0, self.entry, None, 0
        for piece, frames in found:
            if isinstance(piece, TooLong):
                if held is not None:
                    yield held
                    held = None
                yield Broken(number, piece.why)
                number, base = number + piece.lines, base + piece.size
                continue
            cut = -1 if piece.endswith(b"\n") else len(piece)
            start = 0
            for first, rest, lines, digest in frames:
                line = start + first
                end = line + rest
                if first:
                    header, raw = piece[start:line], piece[line:end]
                    item = entry(number, header, raw, base + line, is_last=end == cut, digest=digest)
                    number += 1 + lines
                    if held is not None:
                        yield settled(held, item)
                        held = None
                    # A changed record waits until the next one shows whether its end was lost.
                    if self._changed == changed:
                        yield item
                    else:
                        held, changed = item, self._changed
                else:
                    lost = lines + (end == cut)
                    yield from (Broken(at, "a payload without a record") for at in range(number, number + lost))
                    number += lines
                start = end
            base += len(piece)
            if self._progress is not None:
                self._progress(base)
        if held is not None:
            yield self.last(held)

    def last(self, item: LogEntry | Broken) -> LogEntry | Broken:
        """Return the last record of a log; if only that does not match its checksum, its end was lost."""
        if isinstance(item, LogEntry) and item.changed is Form.TEXT and self._changed == 1:
            return _cut(item)
        return item

    def entry(
        self, number: int, header: bytes, raw: bytes, offset: int, *, is_last: bool, digest: bytes | None = None
    ) -> LogEntry | Broken:
        """Return the entry of a record with a line number, from its first line and from the lines of its payload.

        Args:
            digest: That of the payload, if it is known.
        """
        at = header.find(b"] {")
        if at < 0:
            return Broken(number, _marked(header) or NO_RECORD, is_last)
        try:
            found = self._headers.read(header[at + 2 :])
        except ValueError as error:
            return Broken(number, str(error), is_last)
        kind, data, context, has_odd_bytes = found
        known, changed = context.has_payload, None
        if kind == "artifact" and isinstance(data, dict):
            kind = intern(f"artifact:{data.get('name')}")
        if known is not None and known != (digest or digest_of(raw)).hex():
            # The last record of a log that stops inside of a line is cut, whatever its text looks like.
            changed = None if is_last else form_of(kind, data, raw)
            if changed is None:
                return Broken(number, _lost(kind, context), is_last)
            self._changed += 1
        left = _NOT if self._source is None else self._source[kind]
        stored, text, lines = None, "", b""
        if left is _RAW:
            lines = raw
        else:
            if raw and left is not _ALL:
                text = payload_of(raw).decode("utf-8", "replace")
            if self._source is not None and left is not _NOT:
                stored = self._source.place(offset, header, raw, left)
        thread = self._thread(header, at)
        return LogEntry(
            number=number,
            kind=kind,
            data=data,
            context=context,
            payload=text,
            thread=thread,
            is_last=is_last,
            has_odd_bytes=has_odd_bytes,
            stored=stored,
            lines=lines,
            changed=changed,
        )

    def _thread(self, header: bytes, end: int) -> str:
        """Return the thread id from a prefix, such as `V0728 07:00:00.123456 4711 torch/_dynamo/utils.py:2350`."""
        known = self._threads.get(header[_THREAD_AT : header.find(b" ", _THREAD_AT, end)])
        if known is not None:
            return known
        words = header[:end].split(maxsplit=3)
        if len(words) < 4:
            return ""
        found = words[2].decode("utf-8", "replace")
        if len(self._threads) < _MOST_KINDS and header.startswith(words[2] + b" ", _THREAD_AT):
            self._threads[words[2]] = found
        return found
