"""Start the child process that compares a model, kernel by kernel."""

import subprocess
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING

from msgspec.structs import replace

from ctrace.inspector.errors import CtraceError, TargetError
from ctrace.inspector.facts.accuracy_facts import Accuracy, NotCompared
from ctrace.inspector.features.accuracy.accuracy_request import AccuracyRequest, Drafts
from ctrace.inspector.findings.silent_dangers import UNEXPLAINED, blamed
from ctrace.inspector.runs.capture_request import CaptureRequest, Options
from ctrace.inspector.runs.child import ChildProcess
from ctrace.inspector.runs.options import check_options
from ctrace.inspector.runs.saving import Adds
from ctrace.inspector.runs.target import ProgramTarget, Resolved, resolve
from ctrace.inspector.runs.tasks import run_task

if TYPE_CHECKING:
    from ctrace.inspector.facts.session import Session

_MODULE = "ctrace.inspector.features.accuracy.child.door"
# Chosen: two minutes for the start and for small models, and a quarter of an hour at most.
_LEAST_SECONDS = 120.0
_MOST_SECONDS = 900.0
"""A comparison takes a few times as long as the run; a quarter of an hour is more than anyone waits unasked."""
_TIMES_AS_LONG = 6
"""A comparison may take this many times as long as the run: each part of a graph is compiled by itself."""


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
        # A program may ask its user.
        child = ChildProcess(has_terminal=True)
        return run_task(_MODULE, request, Accuracy, timeout=timeout, observe=observe, output=output, child=child)
    check_options(found, options)
    request = AccuracyRequest(_capture(found, options), against_eager, promises, steps, max_bytes)
    return run_task(_MODULE, request, Accuracy, timeout=timeout, observe=observe, output=output)


def drafted(found: Resolved, options: Options, site: str, timeout: float | None, observe: Callable[[], None]) -> Drafts:
    """Compare a model, and write a wrong kernel as programs.

    Raises:
        TargetError: the target is not a model, or an option does not fit.
        TaskError: the model fails, in eager or compiled.
        SetupError: there is no supported torch, or the system cannot start a process.
    """
    capture = _capture(found, replace(options, build=False, provoke=False))
    request = AccuracyRequest(capture, writes_programs=True, site=site)
    return run_task(_MODULE, request, Drafts, timeout=timeout, observe=observe, output=subprocess.DEVNULL)


def _capture(found: Resolved, options: Options) -> CaptureRequest:
    """Return the request for a model.

    Raises:
        TargetError: the target is a program.
    """
    if isinstance(found, ProgramTarget):
        what = f"{found.path or found.module} is a program: it makes its own inputs and calls torch.compile itself"
        raise TargetError(what, "name the model in it: ctrace accuracy file.py:name")
    path = None
    if found.path is not None:
        path = str(found.path)
    return CaptureRequest("model", path, found.module, found.name, (), options, log="")


def with_accuracy(
    resolved: Resolved,
    options: Options,
    say: Callable[[str], None] = lambda _text: None,
    *,
    always: bool = False,
    timeout: float | None = None,
    is_wanted: Callable[[], bool] = lambda: True,
) -> "Callable[[Session, Adds], Session]":
    """Return a function that compares a model after its run, and adds the result to the log and the session.

    By default, only scenarios with a wrong result that nothing explains are compared; without one, nothing runs.

    Args:
        timeout: seconds; None: as long as a run of this length may need.
        is_wanted: whether another thread still waits for the result.
    """

    def then(session: "Session", add: Adds) -> "Session":
        # What already has a reason needs no comparison of kernels.
        wrong = tuple(dict.fromkeys(each.scenario for each in session.dangers if each.kind == UNEXPLAINED))
        if session.failure is not None or not (wrong or always):
            return session
        say("comparing kernels")
        limit = min(_LEAST_SECONDS + _TIMES_AS_LONG * (session.time.total or 0.0), _MOST_SECONDS)
        found = _unattended(resolved, options, () if always else wrong, timeout or limit, is_wanted)
        add(found)
        return replace(session, accuracy=found, dangers=blamed(session.dangers, found))

    return then


def _unattended(
    resolved: Resolved, options: Options, scenarios: tuple[str, ...], timeout: float, is_wanted: Callable[[], bool]
) -> Accuracy:
    """Compare a model without a user to tell of errors: the result says why there is none."""

    def observe() -> None:
        if not is_wanted():
            raise TargetError("the check was interrupted", "run it again")

    try:
        # Inputs that ctrace makes up to provoke recompilations are not the user's results.
        request = AccuracyRequest(_capture(resolved, replace(options, provoke=False)), scenarios=scenarios)
        devnull = subprocess.DEVNULL
        return run_task(_MODULE, request, Accuracy, timeout=timeout, observe=observe, output=devnull)
    except CtraceError as error:
        return Accuracy(not_compared=(NotCompared("the model", error.what),))
