"""The child process of a capture: run what the order says, record how it ended."""

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from ctrace.inspector.capture.eager import Around, EagerError
from ctrace.inspector.capture.environment import library_prefixes
from ctrace.inspector.capture.models import Loaded, load
from ctrace.inspector.capture.ops import OpCounter
from ctrace.inspector.capture.program import run_program
from ctrace.inspector.capture.recorder import Recorder
from ctrace.inspector.capture.scenarios import run_scenarios
from ctrace.inspector.capture.session import capturing
from ctrace.inspector.capture.usertrace import without_our_frames
from ctrace.inspector.capture.virtual.pretence import Pretence
from ctrace.inspector.capture.ways import Call
from ctrace.inspector.errors import TargetError
from ctrace.inspector.findings import Owner
from ctrace.inspector.order import Order
from ctrace.inspector.owners import owner_of

_TODO = {
    "load": "Make the file import in plain Python first.",
    "eager": "Make the model run without torch.compile first, with these inputs.",
}


def main() -> None:
    """Carry out the order whose file is the only argument, and end as the program ends."""
    order = Order.from_file(Path(sys.argv[1]))
    ops = OpCounter() if order.kind == "model" else None
    options = order.options
    with capturing(
        Path(order.log), build=options.build, cost=options.guard_cost, ops=ops, owned=order.owned, gpu=order.gpu
    ) as recorder:
        status = _run(order, recorder, ops)
    sys.stdout.flush()
    sys.exit(status)


def _run(order: Order, recorder: Recorder, ops: OpCounter | None) -> Any:
    try:
        if ops is None:
            with _reporting(recorder, "run"):
                run_program(order)
        else:
            _run_model(order, recorder, ops)
    except _Reported as reported:
        return reported.status
    return 0


def _run_model(order: Order, recorder: Recorder, ops: OpCounter) -> None:
    loading: Around = nullcontext
    eagerly: Around = nullcontext
    if order.gpu is not None:
        pretence = Pretence(recorder)
        loading, eagerly = pretence.loading, pretence.running
    with _reporting(recorder, "load"), loading():
        loaded = load(order)
    scenarios = {name: replace(way, make=_within(loading, way.make)) for name, way in loaded.scenarios.items()}
    with _reporting(recorder, "run"):
        run_scenarios(Loaded(loaded.model, scenarios), order.options, recorder, ops, eagerly)


def _within(around: Around, make: Callable[[], Call]) -> Callable[[], Call]:
    def within() -> Call:
        with around():
            return make()

    return within


class _Reported(Exception):  # noqa: N818 - not an error but the end of a run
    """The program has ended otherwise than by running through; it is in the log."""

    def __init__(self, status: Any) -> None:
        super().__init__()
        self.status = status


@contextmanager
def _reporting(recorder: Recorder, phase: str) -> Iterator[None]:
    """Record how the user's code failed, show its traceback without our frames, and go on to end the capture."""
    try:
        yield
    except SystemExit as error:
        if error.code not in (None, 0):
            message = f"exit code {error.code}" if isinstance(error.code, int) else str(error.code)
            recorder.record("failure", {"phase": phase, "type": "SystemExit", "message": message})
        raise _Reported(error.code) from None
    except TargetError as error:
        recorder.record(
            "failure", {"phase": "target", "type": "TargetError", "message": error.what, "todo": error.todo}
        )
        raise _Reported(2) from None
    except EagerError as error:
        _fail(recorder, "eager", error.__cause__ or error)
    except BaseException as error:
        _fail(recorder, "interrupt" if isinstance(error, KeyboardInterrupt) else phase, error)


def _fail(recorder: Recorder, phase: str, error: BaseException) -> None:
    trimmed = without_our_frames(error.__traceback__)
    frames = traceback.extract_tb(trimmed)
    # The user's own line, where there is one: the innermost may lie deep in torch.
    at = next((frame for frame in reversed(frames) if owner_of(frame.filename, library_prefixes()) is Owner.USER), None)
    recorder.record(
        "failure",
        {
            "phase": phase,
            "type": type(error).__qualname__,
            "message": str(error) or phase,
            "file": at.filename if at else None,
            "line": at.lineno if at else None,
            "todo": _TODO.get(phase, ""),
        },
    )
    sys.excepthook(type(error), error.with_traceback(trimmed), trimmed)
    raise _Reported(1)
