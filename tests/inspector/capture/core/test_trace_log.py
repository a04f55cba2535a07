"""The log that a capture writes can be read back, whatever happens to the process."""

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrace.inspector.capture.core.trace_log import TraceLog
from ctrace.inspector.log.reader import Broken, LogEntry, read
from tests.support.helpers import any_json, fuzzing


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trace.log"


def entries(path: Path) -> list[LogEntry]:
    found = list(read(path))
    assert not [item for item in found if isinstance(item, Broken)]
    return [item for item in found if isinstance(item, LogEntry)]


def test_an_artifact_is_read_back(path: Path):
    TraceLog(path).artifact("mode", {"build": True})
    (entry,) = entries(path)
    assert (entry.kind, entry.compile_id) == ("artifact:ctrace_mode", None)
    assert json.loads(entry.payload) == {"build": True}


def test_an_artifact_belongs_to_a_compilation(path: Path):
    TraceLog(path).artifact("graph", {}, {"frame_id": 3, "frame_compile_id": 1, "attempt": 2})
    (entry,) = entries(path)
    assert (entry.compile_id, entry.attempt) == ("3/1", 2)


def test_a_record_of_torchs_is_read_back(path: Path):
    TraceLog(path).write({"str": ["a.py", 4]}, None, "torch/_logging/structured.py", 28)
    (entry,) = entries(path)
    assert (entry.kind, entry.data, entry.payload) == ("str", ["a.py", 4], "")


def test_a_line_begins_as_torchs_lines_do(path: Path):
    TraceLog(path).write({"str": ["a.py", 4]}, None, "torch/_logging/structured.py", 28)
    assert re.fullmatch(
        r'V\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ torch/_logging/structured\.py:28\] \{"str": \["a\.py", 4\]\}\n',
        path.read_text(encoding="utf-8"),
    )


@pytest.mark.parametrize("payload", ["", "\n", "a\nb\n", "\ta", "é\N{LINE SEPARATOR}\r\n", "V0102 {not} a record] {}"])
def test_payloads_are_kept_as_they_are(path: Path, payload: str):
    log = TraceLog(path)
    log.write({"note": {}}, payload, "a.py", 1)
    log.write({"next": {}}, None, "a.py", 2)
    first, second = entries(path)
    assert (first.payload, second.kind) == (payload, "next")


def test_what_json_cannot_hold_is_written_as_text(path: Path):
    log = TraceLog(path)
    log.artifact("note", {"path": Path("a.py"), "set": {1}})
    log.write({"note": {"value": object}}, None, "a.py", 1)
    artifact, record = entries(path)
    assert json.loads(artifact.payload)["path"] == "a.py"
    assert "object" in record.data["value"]


def test_a_name_that_is_no_text_can_be_written(path: Path):
    log = TraceLog(path)
    log.artifact("note", {"file": "\udcff.py"})
    log.write({"note": {"file": "\udcff.py"}}, None, "\udcff.py", 1)
    artifact, record = entries(path)
    assert json.loads(artifact.payload)["file"] == record.data["file"] == "\udcff.py"


def test_a_record_is_on_disk_when_write_returns(path: Path):
    log = TraceLog(path)
    log.artifact("first", {})
    assert len(entries(path)) == 1
    log.artifact("second", {})
    assert len(entries(path)) == 2


def test_a_log_goes_on_where_it_was(path: Path):
    first = TraceLog(path)
    first.artifact("first", {})
    first.close()
    TraceLog(path).artifact("second", {})
    assert [entry.kind for entry in entries(path)] == ["artifact:ctrace_first", "artifact:ctrace_second"]


def test_after_the_end_records_are_dropped(path: Path):
    log = TraceLog(path)
    log.close()
    log.artifact("late", {})
    assert entries(path) == []


def test_threads_do_not_mix_their_records(path: Path):
    log = TraceLog(path)

    def write(number: int) -> None:
        for index in range(50):
            log.artifact("note", {"thread": number, "index": index, "text": "x" * 3000})

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(entries(path)) == 200


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_writes_to_the_same_log(path: Path):
    log = TraceLog(path)
    log.artifact("parent", {"pid": os.getpid()})
    pid = os.fork()
    if pid == 0:
        try:
            log.artifact("child", {"pid": os.getpid()})
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    log.artifact("parent", {"pid": os.getpid()})
    pids = [json.loads(entry.payload)["pid"] for entry in entries(path)]
    assert pids == [os.getpid(), pid, os.getpid()]


@pytest.mark.skipif(sys.platform == "win32", reason="descriptors are inherited otherwise")
def test_programs_that_the_program_starts_do_not_hold_the_log(path: Path):
    log = TraceLog(path)
    listing = "import os; print([os.path.realpath(f'/dev/fd/{each}') for each in range(3, 64)])"
    started = subprocess.run(
        [sys.executable, "-c", listing], close_fds=False, capture_output=True, text=True, check=True
    )
    log.close()
    assert str(path) not in started.stdout


@fuzzing
@given(any_json)
def test_any_json_is_read_back(tmp_path_factory: pytest.TempPathFactory, payload: Any):
    path = tmp_path_factory.mktemp("log") / "trace.log"
    TraceLog(path).artifact("note", payload)
    (entry,) = entries(path)
    assert json.dumps(json.loads(entry.payload)) == json.dumps(payload)


@fuzzing
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_is_read_back(tmp_path_factory: pytest.TempPathFactory, payload: str):
    path = tmp_path_factory.mktemp("log") / "trace.log"
    TraceLog(path).write({"note": {}}, payload, "a.py", 1)
    (entry,) = entries(path)
    assert entry.payload == payload
