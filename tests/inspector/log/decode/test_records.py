"""Every record of ctrace's in the recorded logs reads without a problem, and comes back as it was written."""

import gzip
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ctrace.inspector.log.decode.dispatch import decode
from ctrace.inspector.log.reader import Entry, parse
from ctrace.inspector.model.wire import Record, payload_of
from tests.support.places import ROOT

DATA = ROOT / "tests" / "data"


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
        if isinstance(event, Record):
            written = json.loads(entry.payload)
            assert kept(written, payload_of(event)) == written, entry.kind
