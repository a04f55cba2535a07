"""Every record of ctrace's in the recorded logs reads without a problem, and comes back as it was written."""

import gzip
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ctrace.inspector.facts.events.guards import GuardStack
from ctrace.inspector.facts.events.run import CallBegan, Listing
from ctrace.inspector.facts.findings import Frame
from ctrace.inspector.facts.wire import Record, payload_of
from ctrace.inspector.log.decode.dispatch import decode
from ctrace.inspector.log.decode.records import OUR_RECORDS
from ctrace.inspector.log.reader import Entry, parse
from tests.support.helpers import Log
from tests.support.places import ROOT

DATA = ROOT / "tests" / "data"


KINDS = {f"artifact:ctrace_{kind.KIND}": kind for kind in OUR_RECORDS}


def recorded() -> list[Path]:
    """Return the recorded logs and saved runs."""
    kinds = ("*.log", "diff/*.log.gz", "ranks/*/*", "runs/*.tar.gz")
    return sorted(path for kind in kinds for path in DATA.glob(kind))


def text_of(path: Path) -> bytes:
    """Return a log's text, also of a saved run."""
    if path.name.endswith(".tar.gz"):
        with tarfile.open(path) as packed:
            (member,) = (each for each in packed.getmembers() if each.name.endswith("/trace.log"))
            log = packed.extractfile(member)
            assert log is not None
            return log.read()
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def entries(path: Path) -> Iterator[Entry]:
    """Yield the records of ctrace's in a log."""
    for item in parse(text_of(path).decode("utf-8", "replace").splitlines(keepends=True)):
        if isinstance(item, Entry) and item.kind.startswith("artifact:ctrace_"):
            yield item


def kept(written: Any, read: Any) -> Any:
    """Return of what was read only the fields that were written: older logs lack some."""
    if isinstance(written, dict) and isinstance(read, dict):
        return {name: kept(value, read.get(name)) for name, value in written.items()}
    if isinstance(written, list) and isinstance(read, list | tuple) and len(written) == len(read):
        return [kept(one, other) for one, other in zip(written, read, strict=True)]
    return sorted(read) if isinstance(read, set | frozenset) else read


@pytest.mark.parametrize("path", recorded(), ids=lambda path: path.name)
def test_records_read_as_they_were_written(path: Path) -> None:
    for entry in entries(path):
        event = decode(entry)
        if (kind := KINDS.get(entry.kind)) is not None:
            assert isinstance(event, kind), entry.kind
        if isinstance(event, Record):
            written = json.loads(entry.payload)
            assert kept(written, payload_of(event)) == written, entry.kind


def decoded(name: str, data: Any) -> Any:
    (entry,) = Log().ctrace(name, data, at="0/0").entries()
    assert isinstance(entry, Entry)
    return decode(entry)


def test_null_for_a_text_or_a_count_is_a_missing_field() -> None:
    unmet = [{"guard": "L['n'] == 2", "hint": None}, {"guard": "L['m'] == 2", "hint": "here"}]
    failed = decoded("recompile", {"entries": [{"id": "0/0", "unmet": unmet, "number": None, "other": 1}]})
    (entry,) = failed.entries
    assert (entry.number, [each.hint for each in entry.unmet]) == (2, ["", "here"])


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("listing", {"file": "a.py", "text": None}),
        ("files", {"files": {"a.py": None}}),
        ("recompile", {"entries": None}),
        ("recompile", {"entries": [None]}),
        ("recompile", {"entries": [], "closure": None}),
        ("recompile", {"entries": [], "seconds": float("nan")}),
        ("call", {"scenario": "base", "index": 10**30}),
    ],
)
def test_what_is_damaged_is_refused(name: str, data: Any) -> None:
    with pytest.raises(ValueError, match=r"Expected|missing"):
        decoded(name, data)


def test_what_no_field_holds_may_be_anything() -> None:
    data = {"scenario": "base \udc80", "index": 1, "later": float("nan"), "<compile id>": 3}
    assert decoded("call", data) == CallBegan("base \udc80", 1)


def test_what_older_readers_would_not_find_is_written_as_before() -> None:
    """A number of another library is a number, and what JSON does not know is text."""

    class Count(int):
        pass

    assert payload_of(CallBegan("base", Count(3))) == {"scenario": "base", "index": 3}
    assert payload_of(Listing(Path("a.py"), "x")) == {"file": "a.py", "text": "x"}  # type: ignore[arg-type]
    frames = (Frame("a.py", 3, "f"),)
    assert payload_of(GuardStack(frames)) == {"frames": ({"file": "a.py", "line": 3, "name": "f"},)}  # type: ignore[arg-type]
