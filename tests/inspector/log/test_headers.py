"""First lines of records: typed decoders return and report what the general one does."""

import json
from typing import Any

import msgspec
import pytest

from ctrace.inspector.log.headers import Headers
from tests.support.places import DATA

LINE = b'{"compilation_metrics": {"a": "b", "n": [1, 2.5e3, -4]}, "rank": 1, "frame_id": 3, "frame_compile_id": 0, "attempt": 0, "has_payload": "00"}'


def read(text: bytes, type_: Any = Any) -> object:
    """Return what a decoder says of a line: where the event belongs, or why it cannot be read."""
    try:
        found = Headers(lambda _kind: type_).read(text)
    except ValueError as error:
        return str(error)
    kind, _, at, has_odd_bytes = found
    return kind, at.frame_id, at.frame_compile_id, at.attempt, at.has_payload, has_odd_bytes


def general(text: bytes) -> object:
    """Return the same of the decoder of any JSON: a space before the event has no typed decoder."""
    return read(text.replace(b'{"', b'{ "', 1))


@pytest.mark.parametrize(
    "change",
    [
        (b"", b""), (b'"b"', b'"\\q"'), (b'"b"', b'"\xff"'), (b'"b"', b'"a\x01"'), (b'"b"', b'"\\ud800"'), (b"2.5e3", b"1.2.3"),
        (b"2.5e3", b"01"), (b"2.5e3", b"NaN"), (b"2.5e3", b"1e999"), (b"-4", b"-"), (b"-4]", b"-4"), (b"-4]", b"-4,]"),
        (b'"frame_id": 3', b'"frame_id": -3'), (b'"frame_id": 3', b'"frame_id": 3.0'), (b'"frame_id": 3', b'"frame_id": true'),
        (b'"frame_id": 3', b'"frame_id": 99999999999999999999'), (b'"frame_id": 3', b'"frame_id": null'), (b', "attempt": 0', b""),
        (b'"rank": 1', b'"unheard_of": 1'), (b'"rank": 1', b'"stack": [{"line": 1}]'), (b'"has_payload": "00"', b'"has_payload": 4'),
        (b"}, ", b"} "), (b'"00"}', b'"00"} more'), (b"compilation_metrics", b"rank"), (b"compilation_metrics", b"\xc3\xa4"),
        (b"compilation_metrics", b""), (LINE, b"{}"), (LINE, b"{"), (LINE, b'{"' + b"[" * 100_000),
    ],
)  # fmt: skip
def test_damage_is_reported_whatever_is_skipped(change: tuple[bytes, bytes]) -> None:
    line = LINE.replace(*change, 1) if change[0] else LINE
    for type_ in (Any, msgspec.Raw):
        found, known = read(line, type_), general(line)
        if isinstance(known, str):  # the messages differ in a position
            assert isinstance(found, str)
            assert found.partition("(")[0] == known.partition("(")[0]
        else:
            assert found == known


def test_lines_of_recorded_logs_read_the_same() -> None:
    seen = set()
    for log in sorted(DATA.glob("*.torch.log")):
        for line in log.read_bytes().split(b"\n"):
            at = line.find(b"] {")
            if line[:1] == b"\t" or at < 0:
                continue
            text = line[at + 2 :]
            assert read(text) == read(text, msgspec.Raw) == general(text)
            seen.add(next(iter(json.loads(text))))
    assert len(seen) > 10


def test_any_number_of_kinds_needs_a_bounded_number_of_decoders() -> None:
    headers = Headers()
    for number in range(1_000):
        assert headers.read(b'{"kind_%d": {}}' % number)[0] == f"kind_{number}"
    assert len(headers._decoders) <= 500
