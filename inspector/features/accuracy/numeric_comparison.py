"""Start the child process that compares a model, kernel by kernel."""

from collections.abc import Callable, Sequence
from typing import IO

from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.accuracy.accuracy_facts import Accuracy, AccuracyRequest
from ctrace.inspector.runs.capture_request import CaptureRequest, Options
from ctrace.inspector.runs.child import ChildProcess
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
    timeout: float | None,
    observe: Callable[[], None],
    output: int | IO[bytes] | None,
    args: Sequence[str] = (),
    steps: int = 0,
    max_bytes: int | None = None,
) -> Accuracy:
    """Compare each kernel of a model or a program with eager and float64.

    Raises:
        TargetError: the target is not a model, or an option does not fit.
        TaskError: the model fails, in eager or compiled.
        SetupError: there is no supported torch, or the system cannot start a process.
    """
    found = resolve(target, args, has_inputs=bool(options.inputs))
    if isinstance(found, ProgramTarget):
        if options != Options() or promises or steps:
            what = f"{target} is a program: it makes its own inputs and calls torch.compile itself"
            todo = "use only --against, --max-bytes, --timeout and --fail-on with it, or name a model: file.py:name"
            raise TargetError(what, todo)
        capture = CaptureRequest("program", str(found.path), None, None, found.args, options, log="", typed=found.typed)
        request = AccuracyRequest(capture, against_eager, max_bytes=max_bytes)
        child = ChildProcess(has_terminal=True)
        return run_task(_MODULE, request, Accuracy, timeout=timeout, observe=observe, output=output, child=child)
    check_options(found, options)
    path = None if found.path is None else str(found.path)
    capture = CaptureRequest("model", path, found.module, found.name, (), options, log="")
    request = AccuracyRequest(capture, against_eager, promises, steps, max_bytes)
    return run_task(_MODULE, request, Accuracy, timeout=timeout, observe=observe, output=output)
