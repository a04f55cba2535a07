"""Start the child process that compares a model, kernel by kernel."""

from collections.abc import Callable
from typing import IO

from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.accuracy.accuracy_facts import Accuracy, AccuracyRequest
from ctrace.inspector.runs.capture_request import CaptureRequest, Options
from ctrace.inspector.runs.options import check_options
from ctrace.inspector.runs.target import ProgramTarget, resolve
from ctrace.inspector.runs.tasks import run_task

_MODULE = "ctrace.inspector.features.accuracy.child.door"


def accuracy_of(
    target: str,
    options: Options,
    *,
    against_eager: bool,
    promises: bool,
    steps: int = 0,
    timeout: float | None,
    observe: Callable[[], None],
    output: int | IO[bytes] | None,
) -> Accuracy:
    """Compare each kernel of a model with eager and float64.

    Raises:
        TargetError: the target is not a model, or an option does not fit.
        TaskError: the model fails, in eager or compiled.
        SetupError: there is no supported torch, or the system cannot start a process.
    """
    found = resolve(target, has_inputs=bool(options.inputs))
    if isinstance(found, ProgramTarget):
        what = f"{target} is a program: it makes its own inputs and calls torch.compile itself"
        raise TargetError(what, "name the model in it: ctrace accuracy file.py:name")
    check_options(found, options)
    path = None if found.path is None else str(found.path)
    capture = CaptureRequest("model", path, found.module, found.name, (), options, log="")
    request = AccuracyRequest(capture, against_eager, promises, steps)
    return run_task(_MODULE, request, Accuracy, timeout=timeout, observe=observe, output=output)
