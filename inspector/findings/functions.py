"""Find the function of a compilation, with its file and line."""

import re

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.facts.bytecode_facts import GraphMade
from ctrace.inspector.facts.findings import Owner
from ctrace.inspector.facts.stored import text_of
from ctrace.inspector.log.raw import Raw
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


def place_of(raw: Raw, compile_id: str) -> FunctionPlace:
    """Find a compilation's function; for Dynamo's own wrapper, find the module inside it and the user's line that calls
    it.

    One wrapper serves all modules. So use the data of the wrapper's other compilations only if this one has none.
    """
    place = _code(raw, compile_id)
    if place.function != _WRAPPER[0] or not place.file.replace("\\", "/").endswith(_WRAPPER[1]):
        return place
    ids = [compile_id, *raw.of_frame.get(compile_id.partition("/")[0], ())]
    made = [graph for other in ids for graph in raw.graphs.get(other, ()) if isinstance(graph, GraphMade)]
    wraps = next((graph.wraps for graph in made if graph.wraps), None)
    place = replace(place, function=wraps or _guarded(raw, compile_id) or place.function)
    start = next((raw.starts[other] for other in ids if other in raw.starts), None)
    for frame in reversed(start.stack if start else ()):
        file = raw.files.get(frame.file, "?")
        if owner_of(file, raw.prefixes) is Owner.USER:
            return replace(place, file=file, line=frame.line)
    return place


def _guarded(raw: Raw, compile_id: str) -> str:
    """Return the class of the module that the wrapper calls, as torch guards it; empty if it is not in the log."""
    known = raw.wrapped.get(compile_id)
    if known is None:
        printed = raw.guards.get(compile_id)
        match = _GUARDED.search(text_of(printed.text)) if printed else None
        known = raw.wrapped[compile_id] = match[1] if match else ""
    return known


def _code(raw: Raw, compile_id: str) -> FunctionPlace:
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
