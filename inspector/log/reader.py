"""Read a trace log in torch's structured-trace format, one entry at a time.

A record is one line, a glog prefix and a JSON object (torch/_logging/_internal.py, `TorchLogsFormatter`, 2.13); its
payload follows in lines that start with a tab. A broken record becomes a `Broken`, never an exception.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.log.files import UNREADABLE, opened

_CONTEXT = frozenset(
    ("rank", "frame_id", "frame_compile_id", "attempt", "compiled_autograd_id", "has_payload", "stack", "subgraph_name")
)
_NUMBERS = ("frame_id", "frame_compile_id", "attempt")
_MOST = 2**31
_POLL_SECONDS = 0.05
_CHUNK = 1 << 16
_PAYLOAD = "the payload of"


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

    @property
    def compile_id(self) -> str | None:
        """Frame and compile number, such as `0/1`; None outside a compilation."""
        frame, compile_ = self.context.get("frame_id"), self.context.get("frame_compile_id")
        return None if frame is None or compile_ is None else f"{frame}/{compile_}"

    @property
    def attempt(self) -> int:
        """How many times Dynamo had restarted this compilation."""
        return int(self.context.get("attempt") or 0)


class Broken(Struct, frozen=True):
    """A line that cannot be read."""

    number: int
    why: str
    is_last: bool = False
    """Whether the log ends in the middle of this line."""


def is_other_payload(broken: Broken) -> bool:
    """Whether a record is broken only because its payload does not match its checksum."""
    return broken.why.startswith(_PAYLOAD) and not broken.is_last


def read(path: Path, *, trust: bool = False) -> Iterator[Entry | Broken]:
    """Read a finished log, also a compressed one.

    Args:
        path: The log.
        trust: Whether to use payloads that do not match their checksums, as those of an edited log.

    Raises:
        OSError: the file cannot be read.
        SetupError: it is compressed in a way that this Python cannot read.
    """
    with opened(path) as lines:
        yield from parse(_whole(lines), trust=trust)


def _whole(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines; a compressed file that is damaged or cut short ends in a line that is no record."""
    try:
        yield from lines
    except UNREADABLE as error:
        yield f"the compressed file is damaged or cut short ({error})"


def follow(path: Path, ended: Callable[[], bool]) -> Iterator[Entry | Broken]:
    """Read a log while it is being written, until `ended()` returns True and nothing is left to read.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        yield from follow_bytes(lambda: file.read(_CHUNK), ended)


def follow_bytes(read_more: Callable[[], bytes], ended: Callable[[], bool]) -> Iterator[Entry | Broken]:
    """Read a log in chunks as they arrive, until `ended()` returns True and nothing is left to read."""
    yield from parse(_growing(read_more, ended))


def _growing(read_more: Callable[[], bytes], ended: Callable[[], bool]) -> Iterator[str]:
    partial: list[bytes] = []
    while True:
        last = ended()  # checked before reading, so that a write after the check is not lost
        while data := read_more():
            *lines, rest = data.split(b"\n")
            for line in lines:
                yield (b"".join((*partial, line)) + b"\n").decode("utf-8", "replace")
                partial.clear()
            partial.append(rest)
        if last:
            break
        time.sleep(_POLL_SECONDS)
    if any(partial):
        yield b"".join(partial).decode("utf-8", "replace")


def parse(lines: Iterable[str], *, trust: bool = False) -> Iterator[Entry | Broken]:
    """Turn lines into entries; an entry is complete when the next one starts."""
    header = line = ""
    payload: list[str] = []
    start = 0
    for number, line in enumerate(lines, 1):
        if line.startswith("\t"):
            if header:
                payload.append(line[1:])
            else:
                yield Broken(number, "a payload without a record")
            continue
        if header:
            yield _entry(start, header, payload, trust=trust)
        header, payload, start = line, [], number
    if header:
        yield replace(_entry(start, header, payload, trust=trust), is_last=not line.endswith("\n"))


def _entry(number: int, header: str, payload: list[str], *, trust: bool) -> Entry | Broken:
    at = header.find("] {")
    if at < 0:
        return Broken(number, "not a trace record")
    try:
        record = json.loads(header[at + 2 :])
    except (ValueError, RecursionError) as error:
        return Broken(number, f"unreadable JSON ({error})")
    names = [name for name in record if name not in _CONTEXT]
    if not names:
        return Broken(number, "a record without an event")
    if not all(_is_number(record.get(name)) for name in _NUMBERS):
        return Broken(number, f"impossible numbers of a compilation ({names[0]!r})")
    text = "".join(payload)
    text = text[:-1] if text.endswith("\n") else text
    digest = record.get("has_payload")
    if (
        digest is not None
        and not trust
        and hashlib.md5(text.encode("utf-8"), usedforsecurity=False).hexdigest() != digest
    ):
        return Broken(number, f"{_PAYLOAD} {names[0]!r} is cut short or damaged")
    kind, data = names[0], record[names[0]]
    if kind == "artifact" and isinstance(data, dict):
        kind = f"artifact:{data.get('name')}"
    context = {name: record[name] for name in record if name in _CONTEXT}
    return Entry(number, kind, data, context, text, _thread(header[:at]))


def _is_number(value: Any) -> bool:
    """Whether a value is a valid number of a frame, compilation or attempt, or None, as outside of a compilation."""
    return value is None or (type(value) is int and 0 <= value < _MOST)


def _thread(prefix: str) -> str:
    """Return the thread id from a line's prefix, such as `V0728 07:00:00.123456 4711 torch/_dynamo/utils.py:2350`."""
    words = prefix.split(maxsplit=3)
    return words[2] if len(words) > 3 else ""
