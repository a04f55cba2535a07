"""Find the line that a failure is about: torch compiles the user's code, so the traceback itself may not pass there."""

import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

from ctrace.inspector.capture.core.callers import without_our_frames
from ctrace.inspector.capture.core.environment import library_prefixes
from ctrace.inspector.capture.core.exception_text import message
from ctrace.inspector.model.findings import Owner
from ctrace.inspector.source.owners import owner_of

Place = tuple[str, int | None]
_BEGINS = re.compile(r"^\s*(?:from user code|Original traceback|User stack):", re.MULTILINE)
"""How torch introduces the stack of the code that was being compiled: Dynamo (2.13, _dynamo/exc.py), an interpreter of
a graph (fx/interpreter.py), and a violated mark (fx/experimental/symbolic_shapes.py)."""
_FRAME = re.compile(r'^\s*File "(?P<file>[^"\n]+)", line (?P<line>\d+), in ', re.MULTILINE)


def place_of_failure(error: BaseException) -> Place | None:
    """Return the innermost line of the user's, else of the library that the failure is in; None: torch's alone.

    The code that torch names as what it was compiling goes before that which called the compiled function.
    """
    owners = _owners()
    quoted = [place for each in _chain(error) for place in _quoted(message(each))]
    walked = [
        (frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(without_our_frames(error.__traceback__))
    ]
    for places, wanted in ((quoted, Owner.USER), (quoted, Owner.LIBRARY), (walked, Owner.USER)):
        found = next((each for each in reversed(places) if owner_of(each[0], owners) is wanted), None)
        if found is not None:
            return found
    return _of_library(walked, owners)


def _of_library(walked: Sequence[Place], owners: dict[str, str]) -> Place | None:
    """Return the innermost line of an installed package, but not of what runs within torch."""
    outside: list[Place] = []
    for file, line in walked:
        if owner_of(file, owners) is Owner.TORCH and outside:
            break
        if owner_of(file, owners) is Owner.LIBRARY and not file.startswith("<"):
            outside.append((file, line))
    return outside[-1] if outside else None


def _owners() -> dict[str, str]:
    """Return who owns which folder; torch is not there where the file that failed does not import it."""
    file = getattr(sys.modules.get("torch"), "__file__", None)
    return library_prefixes() | ({} if file is None else {str(Path(file).resolve().parent): "torch"})


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__


def _quoted(text: str) -> Iterator[Place]:
    """Yield the frames that torch quotes, outermost first."""
    for begin in list(_BEGINS.finditer(text))[:1]:
        for match in _FRAME.finditer(text, begin.end()):
            yield match["file"], int(match["line"])
