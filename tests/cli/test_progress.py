"""The status line of many jobs."""

import io
import sys
import time

import pytest

from ctrace.cli.progress import Many, Progress, many
from ctrace.inspector.facts.bytecode_facts import GraphMade
from ctrace.inspector.facts.fusion_facts import FusionRecord
from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.run_events import CallBegan, CompileStarted, StackFrame
from ctrace.inspector.features.check.check_model import CheckJob, JobKey
from ctrace.inspector.features.check.pool import ENDED, STARTED
from ctrace.inspector.runs.capture_request import Options


class _Status:
    """Replaces rich's status."""

    def __init__(self) -> None:
        self.shown = ""

    def update(self, text: object) -> None:
        self.shown = str(text)


def _job(model: str, scenario: str = "base") -> CheckJob:
    return CheckJob(JobKey(model, scenario), model, Options())


def test_one_line_shows_the_progress_of_all_jobs() -> None:
    status = _Status()
    shown = Many(30, status)  # type: ignore[arg-type]
    mask, mlp = _job("models/deep/mask.py", "training"), _job("mlp.py")
    shown.observe(mask, STARTED)
    assert status.shown == "0 of 30, running mask.py · training"
    shown.observe(mlp, STARTED)
    assert status.shown == "0 of 30, running mask.py · training and 1 more"
    shown.observe(mask, ENDED)
    assert status.shown == "1 of 30, running mlp.py"
    shown.observe(mlp, ENDED)
    assert status.shown == "2 of 30"


def test_names_are_one_line_of_a_terminal() -> None:
    status = _Status()
    Many(2, status).observe(_job("a\n\x1b[31m" + "b" * 200 + ".py"), STARTED)  # type: ignore[arg-type]
    assert len(status.shown) <= 76
    assert status.shown.isprintable()


def test_nothing_is_shown_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with many(2) as shown:
        shown.observe(_job("a.py"), STARTED)
        shown.observe(_job("a.py"), ENDED)
    assert stream.getvalue() == ""


def test_long_work_in_a_pipe_says_now_and_then_where_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    shown, jobs = Progress(), Many(3)
    for clock[0] in range(65):
        shown.say(f"trying repair {clock[0]}")
    for clock[0] in (70.0, 75.0):
        jobs.observe(_job("a.py"), STARTED)
    assert capsys.readouterr().err.splitlines() == [
        "ctrace: trying repair 20 · 0:20",
        "ctrace: trying repair 40 · 0:40",
        "ctrace: trying repair 60 · 1:00",
        "ctrace: 0 of 3, running a.py",
    ]


@pytest.mark.parametrize("is_program", [False, True])
def test_a_slow_compilation_is_named_once(
    is_program: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    shown = Progress(is_program=is_program)
    shown.observe(CompileStarted("0/0", 0, (StackFrame(1, 2, "forward"),)))
    for clock[0] in (10.0, 31.0, 90.0):
        shown.observe(None)
    err = capsys.readouterr().err
    assert err.count("Ctrl-C stops") == (0 if is_program else 1)
    assert is_program or err.startswith("ctrace: compiling forward has been in dynamo for 31 s.")


def test_a_long_call_is_not_called_compiling(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    shown = Progress()
    shown.observe(CompileStarted("0/0", 0, (StackFrame(1, 2, "forward"),)))
    shown._enter("running")
    clock[0] = 100.0
    shown.observe(None)
    assert capsys.readouterr().err == "ctrace: running · forward · 1:40\n"


def test_the_stage_of_a_capture_follows_its_records() -> None:
    status = _Status()
    shown = Progress(status)  # type: ignore[arg-type]
    shown.observe(CompileStarted("0/0", 0, (StackFrame(0, 3, "forward"),)))
    assert status.shown.startswith("dynamo · forward")
    shown.observe(GraphMade("inductor", 3, id="0/0"))
    assert status.shown.startswith("backend · forward")
    shown.observe(FusionRecord(Stage.BACKWARD, 3, 2, 0, (), graph="0/0"))
    assert status.shown.startswith("inductor (backward) · forward")
    shown.observe(CallBegan("base", 1))
    assert status.shown.startswith("scenario base, call 2 · 0:0")
