"""Start the child process of a task, pass it a request, and read the JSON that it writes."""

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, TypeVar

from msgspec import Struct, to_builtins

from ctrace.inspector.errors import CtraceError, Exit, TargetError
from ctrace.inspector.files.scratch import scratch
from ctrace.inspector.files.typed_json import read_object, typed
from ctrace.inspector.files.writing import write_text
from ctrace.inspector.knowledge.releases import check_environment
from ctrace.inspector.processes.boot import python
from ctrace.inspector.runs.capture_request import CaptureRequest
from ctrace.inspector.runs.child import ChildProcess

# How late the end of a task may be noticed; a task takes seconds.
_POLL_SECONDS = 0.05
_T = TypeVar("_T")


class TaskError(CtraceError):
    """The user's code failed in the child process."""

    exit_code = Exit.PROGRAM


class FailedTask(Struct, frozen=True):
    """How a task ended early, as the child process writes it."""

    what: str
    todo: str
    is_target: bool = False
    """Whether the command line or a file is wrong, rather than the code raising an exception."""


def run_task(
    module: str,
    request: Struct,
    result: type[_T],
    *,
    timeout: float | None = None,
    observe: Callable[[], None] = lambda: None,
    output: int | IO[bytes] | None = 2,
    environment: Mapping[str, str] | None = None,
    child: ChildProcess | None = None,
    loads: CaptureRequest | None = None,
) -> _T:
    """Run `main` of a module in a child process, and return its result.

    Args:
        child: a process with other settings than the default ones.
        loads: what the task loads, if it may run in a fork of the child's server; its `main` then takes a
            `ProcessStart`, too.

    Raises:
        TargetError: the child process refused the request.
        TaskError: the user's code raised, crashed or ran out of time.
        SetupError: there is no supported torch, or the system cannot start a process.
    """
    child = child or ChildProcess()
    if child.interpreter is None:
        check_environment()
    with scratch() as folder:
        asked, answer = folder / "request.json", folder / "result.json"
        write_text(asked, json.dumps(to_builtins(request)))
        deadline = None
        if timeout is not None:
            deadline = time.monotonic() + timeout
        inherited = {**os.environ, **(environment or {})}

        def status_at_end() -> int:
            while (status := child.status()) is None:
                observe()
                time.sleep(_POLL_SECONDS)
                if deadline is not None and time.monotonic() > deadline:
                    raise TaskError(f"timed out after {timeout:g} s", "allow more with --timeout SECONDS")
            return status

        words = str(asked), str(answer)
        if loads is not None:
            with child.forked(loads, words, inherited, (output, output), (), module) as has_started:
                status = 0
                if has_started:
                    status = status_at_end()
            # A fork that finds out that it may differ asks for a new process, which starts below.
            if has_started and not child.wants_restart:
                return _read(answer, status, result)
        command = python(module, *words, interpreter=child.interpreter)
        with child.running(command, inherited, output, output):
            status = status_at_end()
        return _read(answer, status, result)


def _read(answer: Path, status: int, result: type[_T]) -> _T:
    """Read what the child process wrote.

    Raises:
        TargetError, TaskError: it says that the task failed, or wrote nothing.
    """
    try:
        data: Any = read_object(answer)
        if "failed" in data:
            failed = typed(FailedTask, data["failed"], "the result")
            raise (TargetError if failed.is_target else TaskError)(failed.what, failed.todo)
        return typed(result, data, "the result")
    except (OSError, ValueError) as error:
        if status < 0:
            how = f"signal {-status}"
        else:
            how = f"exit code {status}"
        why = ""
        if not isinstance(error, FileNotFoundError):
            why = f"; its result cannot be read: {error}"
        what = f"the process ended with {how} before it wrote a result{why}"
        raise TaskError(what, "see its output above") from None
