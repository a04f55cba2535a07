"""How a capture ended: from the child's status, its log, a deadline and Ctrl-C."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ctrace.inspector.facts.outcome import Failure, FailurePhase
from ctrace.inspector.facts.session import Target
from ctrace.inspector.runs import launch as launching
from ctrace.inspector.runs.capture_request import CaptureRequest, Options
from ctrace.inspector.runs.child import ChildProcess
from ctrace.inspector.runs.launch import launch
from ctrace.inspector.runs.store import SavedRun, Store
from tests.support.helpers import MODEL, Log, whole

STARTED = Log().started()
EXITED = {"how": "os._exit(3)", "file": MODEL, "line": 12}


class FakeChild(ChildProcess):
    """Fake a child that wrote a log and ended; with a status of None, it runs until it is killed."""

    text: str = ""
    ended_with: int | None = None
    kills: int = 0

    @contextmanager
    def running(self, *_arguments: Any) -> Iterator[bool]:
        assert self.run is not None
        self.run.log.write_text(self.text)
        yield True

    def status(self) -> int | None:
        return self.ended_with

    def kill(self) -> int:
        self.kills += 1
        self.ended_with = -signal.SIGKILL
        return -signal.SIGKILL


@pytest.fixture
def run(tmp_path: Path) -> SavedRun:
    return Store(tmp_path / ".ctrace").create(Target(MODEL, "model"))


def ended(
    run: SavedRun, log: Log, status: int | None, kind: str = "program", *, fake: bool = False, **options: Any
) -> Failure | None:
    request = CaptureRequest(kind, MODEL, None, None, (), Options(fake=fake), str(run.log))
    return launch(request, run, child=FakeChild(text=log.text, ended_with=status), **options).failure


def test_a_program_that_ended_well_did_not_fail(run: SavedRun) -> None:
    assert ended(run, whole(), 0) is None


@pytest.mark.parametrize(
    ("number", "kind", "message"),
    [
        (9, "SIGKILL", "SIGKILL killed the program; the system does that when it runs out of memory"),
        (11, "SIGSEGV", "the program crashed with SIGSEGV"),
        (6, "SIGABRT", "the program crashed with SIGABRT"),
        (99, "signal 99", "the program crashed with signal 99"),
    ],
)
def test_a_signal_is_named(number: int, kind: str, message: str, run: SavedRun) -> None:
    assert ended(run, STARTED, -number) == Failure(FailurePhase.CRASH, kind, message)


def test_a_crash_under_fake_says_what_reads_memory(run: SavedRun) -> None:
    failure = ended(run, STARTED, -11, fake=True)
    assert failure is not None
    assert failure.todo.startswith("Under --fake, code such as a C++ extension reads memory that does not exist")


def test_a_program_that_killed_itself_has_a_line(run: SavedRun) -> None:
    log = Log().started().ctrace("exited", {"how": "os.kill(0, 15)", "file": MODEL, "line": 12})
    message = "the program killed itself with os.kill(0, 15)"
    assert ended(run, log, -15) == Failure(FailurePhase.CRASH, "SIGTERM", message, MODEL, 12)


@pytest.mark.parametrize(
    ("log", "message", "place"),
    [
        (STARTED, "the program ended without cleaning up, with exit code 3", (None, None)),
        (
            Log().started().ctrace("exited", EXITED),
            "the program ended without cleaning up, with os._exit(3): exit code 3",
            (MODEL, 12),
        ),
    ],
)
def test_an_exit_code_is_named(log: Log, message: str, place: tuple[str | None, int | None], run: SavedRun) -> None:
    assert ended(run, log, 3) == Failure(FailurePhase.CRASH, "Exit", message, *place)


@pytest.mark.parametrize(
    ("log", "how"),
    [(STARTED, "exit code 0, without cleaning up"), (Log().started().ctrace("exited", EXITED), "os._exit(3)")],
)
def test_a_model_file_that_ends_the_process_learns_what_to_do(log: Log, how: str, run: SavedRun) -> None:
    """Its exit code may be 0; a log without an end mark is enough."""
    failure = ended(run, log, 0, "model")
    assert failure is not None
    assert failure.message == f"the model file ended the process: {how}"
    assert failure.todo.startswith("A model file must not end the process: remove that call")


def test_a_program_that_takes_too_long_is_killed(run: SavedRun) -> None:
    child = FakeChild(text=STARTED.text, ended_with=None)
    request = CaptureRequest("program", MODEL, None, None, (), Options(), str(run.log))
    outcome = launch(request, run, child=child, timeout=0.01)
    message = "the program was still running after 0.01 s"
    assert outcome.failure == Failure(FailurePhase.TIMEOUT, "Timeout", message)
    assert child.kills == 1


def test_a_capture_that_nobody_wants_is_interrupted(run: SavedRun) -> None:
    child = FakeChild(text=STARTED.text, ended_with=None)
    child.end()
    request = CaptureRequest("program", MODEL, None, None, (), Options(), str(run.log))
    failure = launch(request, run, child=child, timeout=100).failure
    assert failure == Failure(FailurePhase.INTERRUPT, "KeyboardInterrupt", "interrupted")
    assert child.kills == 1


def test_a_second_ctrl_c_kills_at_once(run: SavedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "_SIGNALED_SECONDS", 100.0)
    monkeypatch.setattr(launching, "_GRACE_SECONDS", 100.0)
    child = FakeChild(text=STARTED.text, ended_with=None)

    def press(_event: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    request = CaptureRequest("program", MODEL, None, None, (), Options(), str(run.log))
    failure = launch(request, run, child=child, observe=press).failure
    assert failure == Failure(FailurePhase.INTERRUPT, "KeyboardInterrupt", "interrupted")
    assert child.kills == 1


def test_what_the_program_raised_says_more_than_its_exit_code(run: SavedRun) -> None:
    log = (
        Log()
        .started()
        .ctrace("failure", {"phase": "run", "type": "KeyError", "message": "'a'", "file": MODEL, "line": 3})
    )
    failure = ended(run, log, 1)
    assert failure is not None
    assert (failure.phase, failure.type, failure.message) == (FailurePhase.RUN, "KeyError", "'a'")


def test_without_a_terminal_nothing_is_in_the_foreground(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> int:
        raise OSError("no such device")

    monkeypatch.setattr(os, "open", refuse)
    assert launching.is_in_foreground() is False


class Restarting(FakeChild):
    """Fake a process that ends with the exit code by which a fork asks for a new process."""

    @property
    def wants_restart(self) -> bool:
        return True


def test_the_log_of_a_new_process_stays_whatever_its_exit_code(run: SavedRun) -> None:
    request = CaptureRequest("program", MODEL, None, None, (), Options(), str(run.log))
    launch(request, run, child=Restarting(text=whole().text, ended_with=113))
    assert run.log.read_text() == whole().text
