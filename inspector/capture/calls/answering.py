"""Carry out a request in the child process, and write the result or the failure."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, to_builtins

from ctrace.inspector.capture.calls.failure_places import place_of_failure
from ctrace.inspector.capture.core.callers import without_our_frames
from ctrace.inspector.capture.core.exception_text import message, traceback_text, type_name
from ctrace.inspector.errors import CtraceError
from ctrace.inspector.files.typed_json import read_object, typed
from ctrace.inspector.runs.tasks import FailedTask

_T = TypeVar("_T")
_LONG = 600


def answer(kind: type[_T], work: Callable[[_T], Struct]) -> None:
    """Read the request in the file that the first argument names, and write the result to the second.

    The command prints what went wrong; the traceback of the user's code goes to stderr.
    """
    request = typed(kind, read_object(Path(sys.argv[1])), "the request")
    file = Path(sys.argv[2])
    try:
        _write(file, to_builtins(work(request)))
    except CtraceError as error:
        _fail(file, FailedTask(error.what, error.todo, is_target=error.exit_code == 2))
    except SystemExit as error:
        _fail(file, FailedTask(f"the file ended the process with sys.exit: {error.code}", "remove that call"))
    except Exception as error:
        trimmed = without_our_frames(error.__traceback__)
        print(traceback_text(error, trimmed), end="", file=sys.stderr, flush=True)
        _fail(file, failure_of(error, "see the traceback above"))


def answer_now(result: Struct) -> None:
    """Write a result, or a failure, and end the process, whatever its other threads do."""
    data = {"failed": to_builtins(result)} if isinstance(result, FailedTask) else to_builtins(result)
    _write(Path(sys.argv[2]), data)
    os._exit(1 if isinstance(result, FailedTask) else 0)


def failure_of(error: BaseException, todo: str) -> FailedTask:
    """Describe an exception of the user's code in one line."""
    text = next((line for line in message(error).splitlines() if line.strip()), "")
    file, line = place_of_failure(error) or (None, None)
    at = f" (at {file}:{line})" if file is not None else ""
    return FailedTask(f"{type_name(error)}: {text[:_LONG]}{at}", todo)


def _fail(file: Path, failed: FailedTask) -> None:
    _write(file, {"failed": to_builtins(failed)})
    sys.exit(1)


def _write(file: Path, data: Any) -> None:
    file.write_text(json.dumps(data), encoding="utf-8")
