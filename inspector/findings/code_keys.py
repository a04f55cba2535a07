"""Find a frame's function by file, line and plain name; a file may have several functions named `forward`."""

from bisect import bisect_right
from collections.abc import Iterable

from ctrace.inspector.facts import run_events as ev
from ctrace.inspector.facts.findings import Frame
from ctrace.inspector.log.raw import Raw
from ctrace.inspector.source.stacks import resumed

Key = tuple[str, str, int]
"""File, plain name and first line of a function; a resume function has the key of the function that it resumes."""


class Codes:
    """The functions of a run, by their first line."""

    def __init__(self, raw: Raw) -> None:
        met = [(raw.files.get(last.file, "?"), last.name, last.line) for last in _started(raw)]
        met += [(left.file, left.name, left.line) for left in raw.left]
        known = [(each.file, _plain(each.name), each.line) for counted in raw.ops for each in counted.functions]
        known += [(code.file, code.name, code.line) for code in raw.bytecode.values()]
        self._lines: dict[tuple[str, str], list[int]] = {}
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


def _started(raw: Raw) -> Iterable[ev.StackFrame]:
    return (start.stack[-1] for start in raw.starts.values() if start.stack)


def _plain(qualified: str) -> str:
    return qualified.rpartition(".")[2]
