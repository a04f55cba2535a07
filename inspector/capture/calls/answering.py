"""Carry out a request in the child process (`answer`), and write the result, or the failure with its line.

Torch compiles the user's code, so a traceback may lack the line where the failure occurred; `place_of_failure` then
finds it in another way.
"""

import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, to_builtins

from ctrace.inspector.capture.core.callers import without_our_frames
from ctrace.inspector.capture.core.environment import library_prefixes
from ctrace.inspector.capture.core.exception_text import message, traceback_text, type_name
from ctrace.inspector.errors import CtraceError
from ctrace.inspector.facts.findings import Owner
from ctrace.inspector.files.typed_json import read_object, typed
from ctrace.inspector.runs.tasks import FailedTask
from ctrace.inspector.source.owners import owner_of

Place = tuple[str, int | None]
_BEGINS = re.compile(r"^\s*(?:from user code|Original traceback|User stack):", re.MULTILINE)
"""How torch introduces the stack of the code that it was compiling: Dynamo (2.13, _dynamo/exc.py), an FX interpreter
(fx/interpreter.py), and a violated `mark_dynamic` (fx/experimental/symbolic_shapes.py)."""
_FRAME = re.compile(r'^\s*File "(?P<file>[^"\n]+)", line (?P<line>\d+), in ', re.MULTILINE)


def place_of_failure(error: BaseException) -> Place | None:
    """Return the innermost line in user code, else in a library, or None if the failure is in torch alone.

    The code that torch was compiling takes precedence over the code that called the compiled function.
    """
    owners = _owners()
    quoted = [place for each in _chain(error) for place in _quoted(message(each))]
    walked = [
        (frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(without_our_frames(error.__traceback__))
    ]
    # A quoted library line beats a user line of the traceback, which is merely the call of the compiled model.
    for places, owner in ((quoted, Owner.USER), (quoted, Owner.LIBRARY), (walked, Owner.USER)):
        found = next((each for each in reversed(places) if owner_of(each[0], owners) is owner), None)
        if found is not None:
            return found
    return _of_library(walked, owners)


def _of_library(walked: Sequence[Place], owners: dict[str, str]) -> Place | None:
    """Return the innermost line of an installed package, unless only torch calls it."""
    outside: list[Place] = []
    for file, line in walked:
        if owner_of(file, owners) is Owner.TORCH and outside:
            break
        # Generated code, such as `<string>`, is in no file to look at.
        if owner_of(file, owners) is Owner.LIBRARY and not file.startswith("<"):
            outside.append((file, line))
    if not outside:
        return None
    return outside[-1]


def _owners() -> dict[str, str]:
    """Return the owner of each library folder, including torch's if torch was imported."""
    file = getattr(sys.modules.get("torch"), "__file__", None)
    return library_prefixes() | ({} if file is None else {str(Path(file).resolve().parent): "torch"})


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    each: BaseException | None = error
    # `raise a from b` may close a circle of causes.
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__


def _quoted(text: str) -> Iterator[Place]:
    """Yield the frames quoted in torch's message, outermost first."""
    for begin in list(_BEGINS.finditer(text))[:1]:
        for match in _FRAME.finditer(text, begin.end()):
            yield match["file"], int(match["line"])


_T = TypeVar("_T")
_LONG = 600
"""Characters of a message: one line of a screen, not the tensors that some errors print."""


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
    if isinstance(result, FailedTask):
        data = {"failed": to_builtins(result)}
    else:
        data = to_builtins(result)
    _write(Path(sys.argv[2]), data)
    os._exit(1 if isinstance(result, FailedTask) else 0)


def failure_of(error: BaseException, todo: str) -> FailedTask:
    """Describe an exception of the user's code in one line."""
    text = next((line for line in message(error).splitlines() if line.strip()), "")
    file, line = place_of_failure(error) or (None, None)
    at = ""
    if file is not None:
        at = f" (at {file}:{line})"
    return FailedTask(f"{type_name(error)}: {text[:_LONG]}{at}", todo)


def _fail(file: Path, failed: FailedTask) -> None:
    _write(file, {"failed": to_builtins(failed)})
    sys.exit(1)


def _write(file: Path, data: Any) -> None:
    file.write_text(json.dumps(data), encoding="utf-8")
