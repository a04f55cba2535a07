"""Records belong to their compilation, and failures of hooks do not reach the program."""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ctrace.inspector.capture.core.recorder import Postponed, Recorder
from ctrace.inspector.capture.core.trace_log import TraceLog
from ctrace.inspector.facts.bytecode_facts import GraphMade
from ctrace.inspector.facts.run_events import Listing, ModeChosen
from ctrace.inspector.log.reader import LogEntry, read


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """A recorder in a process that has not imported torch."""
    monkeypatch.delitem(sys.modules, "torch._guards", raising=False)
    return Recorder(TraceLog(tmp_path / "trace.log"))


def written(tmp_path: Path) -> list[LogEntry]:
    return [item for item in read(tmp_path / "trace.log") if isinstance(item, LogEntry)]


def problems(tmp_path: Path) -> list[str]:
    return [json.loads(entry.payload)["what"] for entry in written(tmp_path) if entry.kind == "artifact:ctrace_problem"]


def compiling(monkeypatch: pytest.MonkeyPatch, trace_id: object) -> None:
    """Pretend that torch is imported and compiling."""
    context = SimpleNamespace(current_trace_id=lambda: trace_id)
    monkeypatch.setitem(sys.modules, "torch._guards", SimpleNamespace(CompileContext=context))


def test_without_torch_a_record_belongs_nowhere(recorder: Recorder, tmp_path: Path):
    recorder.add(ModeChosen(False))
    (entry,) = written(tmp_path)
    assert (entry.kind, entry.compile_id, entry.context.attempt) == ("artifact:ctrace_mode", None, None)


def test_outside_a_compilation_a_record_belongs_nowhere(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    compiling(monkeypatch, None)
    recorder.add(ModeChosen(False))
    assert written(tmp_path)[0].compile_id is None


def test_a_record_belongs_to_the_compilation_under_way(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    compile_id = SimpleNamespace(frame_id=2, frame_compile_id=1)
    compiling(monkeypatch, SimpleNamespace(compile_id=compile_id, attempt=3))
    recorder.add(GraphMade("eager", 1))
    (entry,) = written(tmp_path)
    assert (entry.compile_id, entry.attempt) == ("2/1", 3)


def test_a_compilation_without_a_frame_is_none(recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    compile_id = SimpleNamespace(frame_id=None, frame_compile_id=None)  # compiled autograd
    compiling(monkeypatch, SimpleNamespace(compile_id=compile_id, attempt=0))
    recorder.add(GraphMade("eager", 1))
    assert written(tmp_path)[0].compile_id is None


def test_a_problem_is_told_once(recorder: Recorder, tmp_path: Path):
    for what in ("no fusion", "no fusion", "no kernels"):
        recorder.problem(what)
    assert problems(tmp_path) == ["no fusion", "no kernels"]


def test_a_hook_that_fails_is_a_problem_and_the_program_goes_on(recorder: Recorder, tmp_path: Path):
    with recorder.watching("bytecode"):
        raise AttributeError("'code' object has no attribute 'co_qualname'")
    (what,) = problems(tmp_path)
    assert what.startswith("bytecode could not be recorded: AttributeError: 'code' object")
    assert "test_a_hook_that_fails" in what


def test_a_hook_that_works_is_no_problem(recorder: Recorder, tmp_path: Path):
    with recorder.watching("bytecode"):
        recorder.add(ModeChosen(False))
    assert problems(tmp_path) == []


def test_a_payload_that_cannot_be_written_is_a_problem(recorder: Recorder, tmp_path: Path):
    circle: list[object] = []
    circle.append(circle)
    with recorder.watching("a graph"):
        recorder.add(Listing("a.py", circle))  # type: ignore[arg-type]
    (what,) = problems(tmp_path)
    assert "RecursionError" in what


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_the_end_of_the_program_passes_through(recorder: Recorder, tmp_path: Path, error: type[BaseException]):
    with pytest.raises(error), recorder.watching("bytecode"):
        raise error
    assert problems(tmp_path) == []


class Waiting:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def measure(self) -> None:
        self.seen.append("measured")

    def refuse(self, why: str) -> None:
        self.seen.append(why)


def test_each_is_measured_or_refused_once() -> None:
    postponed, first, second = Postponed(), Waiting(), Waiting()
    postponed.add(first)
    postponed.measure()
    postponed.add(second)
    postponed.refuse("the program failed")
    postponed.measure()
    assert (first.seen, second.seen) == (["measured"], ["the program failed"])


def test_a_fork_of_the_program_measures_nothing() -> None:
    postponed, waiting = Postponed(), Waiting()
    postponed.add(waiting)
    postponed._process = os.getpid() + 1
    postponed.measure()
    postponed.refuse("why")
    assert waiting.seen == []
