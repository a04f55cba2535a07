"""Logs with broken framing, JSON or payloads: every break is reported, also in payloads that no view reads.

A plain second reader, which shares no code with ctrace's, finds the lines where a record cannot be read. ctrace has to
report exactly these, whether a log is small or counts as large (its payloads then stay in the log). A change that
breaks none of this, such as a digit in a header, cannot be detected: torch writes a checksum of payloads only. Such
changes are counted as silent if they change what ctrace reports.
"""

import hashlib
import json
import random
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from ctrace.inspector.facts.outcome import CutKind, Target
from ctrace.inspector.facts.session import Session
from ctrace.inspector.log.reader import Broken, read
from ctrace.inspector.runs import load as loading
from ctrace.inspector.runs.load import load_log
from tests.faults.damaged import cut, retyped, spliced, swapped
from tests.faults.study import Bench, Result, Study, Try
from tests.support.explained import explain_json, screen_of
from tests.support.golden import drawn
from tests.support.places import DATA

_SECONDS = 30
"""A try that takes more seconds of CPU time hangs."""
_MOST_MEMORY = 700 << 10
"""In KiB, for all tries in one process; a line has up to 10 MB."""
_LONG = 10_000_000
_DEEP = 100_000
_SMALL = 60_000
_CONTEXT = {
    "rank", "frame_id", "frame_compile_id", "attempt", "compiled_autograd_id", "has_payload", "stack", "subgraph_name",
}  # fmt: skip
_SHOWN = 20
"""Every so many tries are also drawn."""


def flipped(data: bytes, chance: random.Random) -> bytes:
    """Change one bit."""
    changed = bytearray(data)
    changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def joined(data: bytes, chance: random.Random) -> bytes:
    """Remove the end of a line."""
    at = data.find(b"\n", chance.randrange(len(data)))
    return data[:at] + data[at + 1 :]


def unindented(data: bytes, chance: random.Random) -> bytes:
    """Remove the tab of a line of a payload."""
    at = data.find(b"\n\t", chance.randrange(len(data)))
    return data[: at + 1] + data[at + 2 :]


def indented(data: bytes, chance: random.Random) -> bytes:
    """Make a record a line of the payload before it."""
    at = data.find(b"\nV", chance.randrange(len(data)))
    return data[: at + 1] + b"\t" + data[at + 1 :]


def lengthened(data: bytes, chance: random.Random) -> bytes:
    """Insert 10 MB without a line break."""
    at = chance.randrange(len(data))
    return data[:at] + chance.choice((b"a", b"\xff", b"[", b'{"a":', b"\x00", b"\t")) * _LONG + data[at:]


def nested(data: bytes, chance: random.Random) -> bytes:
    """Insert a record whose JSON is nested deeply, as its event or as its payload."""
    lines = data.splitlines(keepends=True)
    at = chance.randrange(len(lines))
    opening, closing = chance.choice(((b"[", b"]"), (b'{"a":', b"}")))
    deep = opening * _DEEP + b"1" + closing * chance.choice((0, _DEEP))
    prefix = b"V0102 03:04:05.000006 77 torch/_logging/structured.py:28] "
    digest = hashlib.md5(deep, usedforsecurity=False).hexdigest().encode()
    records = (
        prefix + b'{"x": ' + deep + b"}\n",
        prefix + b'{"chromium_event": {}, "has_payload": "' + digest + b'"}\n\t' + deep + b"\n",
    )
    return b"".join(lines[:at]) + chance.choice(records) + b"".join(lines[at:])


DAMAGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    flipped, flipped, flipped, cut, spliced, swapped, retyped, joined, unindented, indented, lengthened, nested,
)  # fmt: skip


def run(bench: Bench) -> Iterator[Try]:
    """Damage small recorded logs, each try differently, in this process."""
    chance = random.Random(bench.seed)
    logs = [log for log in sorted(DATA.glob("*.log")) if log.stat().st_size < _SMALL]
    whole = {log: _without_path(load_log(log)) for log in logs}
    damaged = bench.scratch / "damaged.log"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(bench.tries):
        log, damage = chance.choice(logs), DAMAGES[number % len(DAMAGES)]
        data = damage(log.read_bytes(), chance)
        damaged.write_bytes(data)
        with _hanging():
            yield _judged(
                f"{number} {log.stem} {damage.__name__}", data, damaged, whole[log], is_shown=not number % _SHOWN
            )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if peak > max(before, _MOST_MEMORY):  # before: of other work in this process
        yield Try("memory", Result.CRASH, f"{peak >> 10} MiB")


def _judged(name: str, data: bytes, log: Path, whole: Session, *, is_shown: bool) -> Try:
    try:
        expected = broken_lines(data)
        found = {each.number for each in read(log) if isinstance(each, Broken) or each.changed is not None}
        session = load_log(log)
        with patch.object(loading, "_LARGE", 1):
            large = load_log(log)
        if is_shown:
            explain_json(session).encode("utf-8", "surrogatepass")
            drawn(screen_of(session, 100), 100)
    except Exception as error:
        return Try(name, Result.CRASH, f"{type(error).__name__}: {error}")
    if found != expected:
        return Try(name, Result.LIE, f"broken lines {sorted(found)[:9]} instead of {sorted(expected)[:9]}")
    if not _is_reported(session, expected) or not _is_reported(large, expected):
        return Try(name, Result.LIE, f"lines {sorted(expected)[:9]} are broken, and the report does not say so")
    if expected or _without_path(session) == whole:
        return Try(name, Result.FINE)
    is_doubted = bool(session.cut_off or session.unknown or any(each.is_doubt for each in session.problems))
    return Try(name, Result.FINE if is_doubted else Result.SILENT)


def _is_reported(session: Session, expected: set[int]) -> bool:
    """Whether a report names each broken line, and says where the log was changed."""
    lines = {each.line for each in session.cut_off if each.kind is CutKind.RECORD}
    changed = next((each for each in session.problems if "the log was changed" in each.what), None)
    return lines == expected or (lines < expected and changed is not None and changed.line in expected - lines)


def _without_path(session: Session) -> Session:
    return replace(session, target=Target())


def broken_lines(data: bytes) -> set[int]:
    """Return the numbers of the lines at which a record cannot be read, by the plainest reader that can be written."""
    broken: set[int] = set()
    start, header, payload = 0, b"", list[bytes]()

    def end() -> None:
        if start and not _is_readable(header, payload):
            broken.add(start)

    lines = data.split(b"\n")
    for number, line in enumerate(lines if lines[-1] else lines[:-1], 1):
        if line[:1] != b"\t":
            end()
            start, header, payload = number, line, []
        elif start:
            payload.append(line[1:])
        else:
            broken.add(number)
    end()
    return broken


def _is_readable(header: bytes, payload: list[bytes]) -> bool:
    _, found, text = header.partition(b"] {")
    if not found:
        return False
    try:
        record: dict[str, Any] = json.loads(b"{" + text if _is_text(text) else ("{" + text.decode("utf-8", "replace")))
    except (ValueError, RecursionError):
        return False
    if not record.keys() - _CONTEXT:
        return False
    for name in ("frame_id", "frame_compile_id", "attempt"):
        value = record.get(name)
        if value is not None and (type(value) is not int or value < 0 or value >= 2**31):
            return False
    digest = record.get("has_payload")
    return digest is None or digest == hashlib.md5(b"\n".join(payload), usedforsecurity=False).hexdigest()


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


class _hanging:  # noqa: N801 - used as a function
    """Raise in a try that takes too long."""

    def __enter__(self) -> None:
        signal.signal(signal.SIGPROF, self._stop)
        signal.setitimer(signal.ITIMER_PROF, _SECONDS)

    def __exit__(self, *_error: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _stop(self, _signal: int, _frame: FrameType | None) -> None:
        raise RuntimeError(f"more than {_SECONDS} s of CPU time")


FAULTS = Study("broken framing", 10_000, run)
