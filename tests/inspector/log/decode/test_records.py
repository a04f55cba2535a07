"""Every record of ctrace's in the recorded logs reads without a problem, and comes back as it was written."""

import gzip
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ctrace.inspector.errors import RunError
from ctrace.inspector.facts.bytecode import Handler, Instruction
from ctrace.inspector.facts.events.core import Unknown
from ctrace.inspector.facts.events.guards import GuardStack
from ctrace.inspector.facts.events.run import CallBegan, Listing
from ctrace.inspector.facts.findings import Frame
from ctrace.inspector.facts.scenarios import Outcome, ScenarioKind
from ctrace.inspector.facts.trial import Trial, Tried
from ctrace.inspector.facts.wire import Record, payload_of
from ctrace.inspector.log.decode.dispatch import decode
from ctrace.inspector.log.decode.records import OUR_RECORDS
from ctrace.inspector.log.reader import Entry, parse
from ctrace.inspector.log.schema import LOG_SCHEMA
from tests.support.helpers import Log, decoded
from tests.support.places import ROOT

DATA = ROOT / "tests" / "data"


UNREAD = {"built_code": ("stage",)}
"""Fields that an older ctrace wrote for nobody, by kind."""
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
    """Return of what was read only the fields that were written: older logs lack some, and trials leave out empty ones."""
    if isinstance(written, dict) and isinstance(read, dict):
        return {
            name: kept(value, read.get(name) if name in read or value else value) for name, value in written.items()
        }
    if written is None and read == "":  # null for a text is a missing field
        return None
    if isinstance(written, list) and isinstance(read, list | tuple) and len(written) == len(read):
        return [kept(one, other) for one, other in zip(written, read, strict=True)]
    return sorted(read) if isinstance(read, set | frozenset) else read


@pytest.mark.parametrize("path", recorded(), ids=lambda path: path.name)
def test_records_read_as_they_were_written(path: Path) -> None:
    for entry in entries(path):
        event = decode(entry)
        assert not isinstance(event, Unknown), entry.kind
        if (kind := KINDS.get(entry.kind)) is not None:
            assert isinstance(event, kind), entry.kind
        if isinstance(event, Record):
            written = json.loads(entry.payload)
            for name in UNREAD.get(event.KIND, ()):
                written.pop(name, None)
            assert kept(written, payload_of(event)) == written, entry.kind


def declared(kind: type[Record] = Record) -> Iterator[type[Record]]:
    """Yield the records that ctrace declares, as far as the decoder imports them."""
    if "KIND" in vars(kind) and kind.__module__.startswith("ctrace."):
        yield kind
    for each in kind.__subclasses__():
        yield from declared(each)


def test_every_record_that_is_declared_is_decoded_under_a_name_of_its_own() -> None:
    assert len({kind.KIND for kind in OUR_RECORDS}) == len(OUR_RECORDS)
    assert set(declared()) == set(OUR_RECORDS)


def test_an_older_reader_gets_no_field_of_a_trial_that_it_would_refuse() -> None:
    tried = Tried(Trial(settings=(("capture_scalar_outputs", True),)), None, 1.5, error="no")
    settings = (("capture_scalar_outputs", True),)
    assert payload_of(tried) == {"trial": {"settings": settings}, "counts": None, "seconds": 1.5, "error": "no"}


def test_null_for_a_text_or_a_count_is_a_missing_field() -> None:
    unmet = [{"guard": "L['n'] == 2", "hint": None}, {"guard": "L['m'] == 2", "hint": "here"}]
    failed = decoded("recompile", {"entries": [{"id": "0/0", "unmet": unmet, "number": None, "other": 1}]})
    (entry,) = failed.entries
    assert (entry.number, [each.hint for each in entry.unmet]) == (2, ["", "here"])


@pytest.mark.parametrize("schema", [LOG_SCHEMA + 1, 2**63, 10**30])
def test_a_log_of_any_later_schema_is_refused_as_newer(schema: int) -> None:
    log = Log().started(schema)
    with pytest.raises(RunError, match=f"newer ctrace .schema {schema};"):
        log.session()


def test_an_empty_text_in_place_of_a_word_is_a_missing_field() -> None:
    done = decoded("scenario", {"name": "base", "calls": 2, "kind": "", "outcome": "", "rule": ""})
    assert (done.kind, done.outcome, done.rule) == (ScenarioKind.GIVEN, Outcome.DONE, None)


def test_a_word_that_a_record_needs_is_not_empty() -> None:
    with pytest.raises(ValueError, match="missing required field `kind`"):
        decoded("plan", {"scenarios": [{"name": "base", "kind": ""}]})


def code_of(**changed: Any) -> dict[str, Any]:
    """Return the code of a function that returns None, as the log has it."""
    lists: dict[str, Any] = {name: [] for name in ("variables", "cells", "free", "names", "constants", "handlers")}
    numbers = dict.fromkeys(("line", "flags", "arguments", "positional_only", "keyword_only"), 1)
    named = {"python": "3.11", "name": "f", "qualname": "f", "file": "a.py"}
    return {**named, **numbers, **lists, "instructions": [[0, "RETURN_VALUE", None, "", 1, None]], **changed}


def rewritten_of(code: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a function whose code is the same before and after."""
    sizes = {"line": 1, "bytes_before": 2, "bytes_after": 2, "callers": []}
    return {"name": "f", "qualname": "f", "file": "a.py", **sizes, "code": code, "new_code": code}


def test_code_reads_as_it_is_written() -> None:
    seen = decoded("bytecode", rewritten_of(code_of(handlers=[[0, 2, 4, 1, True]])))
    assert seen.code.instructions == (Instruction(0, "RETURN_VALUE", None, "", 1, None),)
    assert seen.code.handlers == (Handler(0, 2, 4, 1, lasti=True),)


@pytest.mark.parametrize(
    "changed",
    [
        {"instructions": [[0, "RETURN_VALUE", None, "", 1]]},
        {"instructions": [[0, "RETURN_VALUE", None, "", 1, None, None]]},
        {"handlers": [[0, 2, 4, 1]]},
        {"handlers": [[0, 2, 4, 1, True, True]]},
        {"handlers": None},
    ],
)
def test_rows_of_code_with_another_length_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Expected `array`"):
        decoded("bytecode", rewritten_of(code_of(**changed)))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("listing", {"file": "a.py", "text": None}),
        ("speed", {"why": None}),
        ("caches", {"kind": None}),
        ("torch", {"torch": ""}),
        ("start", {"schema": 10**30 + 1, "ctrace": "9", "python": "3.11", "cwd": "/", "prefixes": {}}),
        ("inductor_guards", {"seen": True}),
        ("danger", {"kind": "unexplained", "subject": "", "proven": False}),
        ("danger", {"scenario": None, "call": 0, "kind": "unexplained", "subject": "", "proven": False}),
        ("files", {"files": {"a.py": None}}),
        ("recompile", {"entries": None}),
        ("recompile", {"entries": [None]}),
        ("recompile", {"entries": [], "closure": None}),
        ("recompile", {"entries": [], "seconds": float("nan")}),
        ("call", {"scenario": "base", "index": 10**30}),
    ],
)
def test_what_is_damaged_is_refused(name: str, data: Any) -> None:
    with pytest.raises(ValueError, match=r"Expected|missing|out of range"):
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
