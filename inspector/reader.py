"""Read a trace log: lines in torch's structured-trace format become entries, one at a time.

A record is one line, a glog prefix and a JSON object (torch/_logging/_internal.py, `TorchLogsFormatter`, 2.13); its
payload follows in lines that start with a tab. Whatever is broken becomes a `Broken`, never an exception.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CONTEXT = frozenset(
    ("rank", "frame_id", "frame_compile_id", "attempt", "compiled_autograd_id", "has_payload", "stack", "subgraph_name")
)
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of a trace log."""

    number: int
    """Line number in the file, from 1."""
    kind: str
    """The event's name; for an artifact, `artifact:` and the artifact's name."""
    data: Any
    """What the record says of the event: a dict, or for `str` a pair."""
    context: dict[str, Any]
    """Compile id, attempt and rank, where the record has them."""
    payload: str = ""

    @property
    def compile_id(self) -> str | None:
        """`frame/compile`, such as `0/1`; None outside a compilation."""
        frame, compile_ = self.context.get("frame_id"), self.context.get("frame_compile_id")
        return None if frame is None or compile_ is None else f"{frame}/{compile_}"

    @property
    def attempt(self) -> int:
        """How many times Dynamo had restarted this compilation."""
        return int(self.context.get("attempt") or 0)


@dataclass(frozen=True, slots=True)
class Broken:
    """A line that cannot be read."""

    number: int
    why: str


def read(path: Path) -> Iterator[Entry | Broken]:
    """Read a finished log.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        yield from parse(lines)


def follow(path: Path, ended: Callable[[], bool]) -> Iterator[Entry | Broken]:
    """Read a log while it is being written, until `ended()` is true and nothing is left.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
        yield from parse(_growing(file.readline, ended))


def _growing(readline: Callable[[], str], ended: Callable[[], bool]) -> Iterator[str]:
    partial = ""
    while True:
        last = ended()  # asked before reading, so that what came in between is not lost
        while line := readline():
            partial += line
            if partial.endswith("\n"):
                yield partial
                partial = ""
        if last:
            break
        time.sleep(_POLL_SECONDS)
    if partial:
        yield partial


def parse(lines: Iterable[str]) -> Iterator[Entry | Broken]:
    """Turn lines into entries; an entry is complete when the next one starts."""
    header = ""
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
            yield _entry(start, header, payload)
        header, payload, start = line, [], number
    if header:
        yield _entry(start, header, payload)


def _entry(number: int, header: str, payload: list[str]) -> Entry | Broken:
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
    text = "".join(payload)
    text = text[:-1] if text.endswith("\n") else text
    want = record.get("has_payload")
    if want is not None and hashlib.md5(text.encode("utf-8"), usedforsecurity=False).hexdigest() != want:
        return Broken(number, f"the payload of {names[0]!r} is cut short or damaged")
    kind, data = names[0], record[names[0]]
    if kind == "artifact" and isinstance(data, dict):
        kind = f"artifact:{data.get('name')}"
    return Entry(number, kind, data, {name: record[name] for name in record if name in _CONTEXT}, text)
