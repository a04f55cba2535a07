"""Find the function of a compilation (`place_of`) or of a frame (`Codes`), with its file and line.

A frame has a file, a line and a plain name; a file may have several functions named `forward`.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.facts import run_events as ev
from ctrace.inspector.facts.bytecode_facts import GraphMade
from ctrace.inspector.facts.findings import Frame, Owner
from ctrace.inspector.facts.stored import text_of
from ctrace.inspector.log.collected_log import CollectedLog
from ctrace.inspector.source.owners import owner_of
from ctrace.inspector.source.stacks import resumed

_WRAPPER = ("inner", "_dynamo/external_utils.py")
"""The wrapper that Dynamo puts around one of torch's own modules (2.13, _dynamo/external_utils.py:67)."""
_GUARDED = re.compile(r"source=L\['fn'\], [^\n]*type=<class '(?:\w+\.)+nn\.(?:\w+\.)*(\w+)'>")
"""The guard on the wrapper's only local (`wrap_inline`)."""


class FunctionPlace(Struct, frozen=True):
    """A function, with its file and first line."""

    function: str
    file: str
    line: int
    resumes_at: int | None = None
    """For a resume function, the line at which it resumes."""

    @property
    def begins(self) -> int:
        """The first line that this code runs."""
        return self.resumes_at or self.line


def place_of(raw: CollectedLog, compile_id: str) -> FunctionPlace:
    """Find a compilation's function; for Dynamo's own wrapper, find the module inside it and the user's line that calls
    it.

    One wrapper serves all modules. So use the data of the wrapper's other compilations only if this one has none.
    """
    place = _code(raw, compile_id)
    # A log may come from Windows.
    if place.function != _WRAPPER[0] or not place.file.replace("\\", "/").endswith(_WRAPPER[1]):
        return place
    ids = [compile_id, *raw.of_frame.get(compile_id.partition("/")[0], ())]
    made = [graph for other in ids for graph in raw.graphs.get(other, ()) if isinstance(graph, GraphMade)]
    wraps = next((graph.wraps for graph in made if graph.wraps), None)
    place = replace(place, function=wraps or _guarded(raw, compile_id) or place.function)
    start = next((raw.starts[other] for other in ids if other in raw.starts), None)
    if start is None:
        return place
    # The wrapper stands in torch; the user knows the module by the line that calls it.
    for frame in reversed(start.stack):
        file = raw.files.get(frame.file, "?")
        if owner_of(file, raw.prefixes) is Owner.USER:
            return replace(place, file=file, line=frame.line)
    return place


def _guarded(raw: CollectedLog, compile_id: str) -> str:
    """Return the class of the module that the wrapper calls, as torch guards it; empty if it is not in the log."""
    known = raw.wrapped.get(compile_id)
    if known is None:
        printed = raw.guards.get(compile_id)
        match = None
        if printed:
            match = _GUARDED.search(text_of(printed.text))
        known = raw.wrapped[compile_id] = match[1] if match else ""
    return known


def _code(raw: CollectedLog, compile_id: str) -> FunctionPlace:
    """Take the first that exists: the bytecode hook, Dynamo's start entry, another compilation of the code, metrics."""
    if seen := raw.bytecode.get(compile_id):
        function, at = resumed(seen.name)
        return FunctionPlace(function, seen.file, seen.line, at)
    if (start := raw.starts.get(compile_id)) and start.stack:
        frame = start.stack[-1]
        function, at = resumed(frame.name)
        return FunctionPlace(function, raw.files.get(frame.file, "?"), frame.line, at)
    for other in raw.of_frame.get(compile_id.partition("/")[0], ()):
        if other != compile_id and (other in raw.bytecode or other in raw.starts):
            return _code(raw, other)
    measured = raw.metrics.get(compile_id)
    function, at = resumed((measured and measured.function) or "?")
    return FunctionPlace(function, (measured and measured.file) or "?", (measured and measured.line) or 0, at)


Key = tuple[str, str, int]
"""File, plain name and first line of a function; a resume function has the key of the function that it resumes."""


class Codes:
    """The functions of a run, by their first line."""

    def __init__(self, raw: CollectedLog) -> None:
        met = [(raw.files.get(last.file, "?"), last.name, last.line) for last in _started(raw)]
        met += [(left.file, left.name, left.line) for left in raw.left]
        known = [(each.file, _plain(each.name), each.line) for counted in raw.ops for each in counted.functions]
        known += [(code.file, code.name, code.line) for code in raw.bytecode.values()]
        self._lines: dict[tuple[str, str], list[int]] = {}
        # Sorted, so that `bisect_right` finds the last function above a line.
        for file, name, line in sorted({*met, *known}):
            if resumed(name)[1] is None:
                self._lines.setdefault((file, name), []).append(line)
        self._met = frozenset(self.key(Frame(file, line, name)) for file, name, line in met)

    def key(self, frame: Frame) -> Key:
        """Find the function of a frame: the last one of that name in the file that begins before the frame's line."""
        name = resumed(frame.function)[0]
        lines = self._lines.get((frame.file, name), [])
        before = bisect_right(lines, frame.line)
        return frame.file, name, lines[before - 1] if before else frame.line

    def keys(self, frames: Iterable[Frame]) -> tuple[Key, ...]:
        """Find the functions of a stack's frames."""
        return tuple(map(self.key, frames))

    def is_met(self, function: Key) -> bool:
        """Whether Dynamo processed a function, compiled or not."""
        return function in self._met

    def is_root(self, function: Key, callers: Iterable[Key]) -> bool:
        """Whether Dynamo processed none of the callers; a recursive call of the function itself does not count."""
        return self._met.isdisjoint(set(callers) - {function})


def _started(raw: CollectedLog) -> Iterable[ev.StackFrame]:
    return (start.stack[-1] for start in raw.starts.values() if start.stack)


def _plain(qualified: str) -> str:
    return qualified.rpartition(".")[2]
