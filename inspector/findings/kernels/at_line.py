"""Find the kernels that a user line compiled to, or why there are none."""

import ast
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from msgspec import Struct

from ctrace.inspector.errors import SelectionError
from ctrace.inspector.facts.fusion_facts import Node
from ctrace.inspector.facts.graph_facts import GraphStage
from ctrace.inspector.facts.kernels import Launch
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.fx import is_view, op_name
from ctrace.inspector.findings.graphs.graph_lines import NodesAtLine, is_file, lines, of_line
from ctrace.inspector.findings.kernels.kernel_view import (
    KernelOfPart,
    PartKernels,
    Work,
    added,
    suggestion,
    work_of_launch,
)

_MOST_LINES = 200
"""The most lines of a range for which to search graphs."""
_MOST_OPS = 6


class Wanted(Struct, frozen=True):
    """The lines that the user requested, and the file, as the end of its path."""

    text: str
    file: str
    """The end of the file's path; empty matches any file."""
    first: int
    last: int

    def has(self, file: str, line: int) -> bool:
        """Whether a line matches."""
        return self.first <= line <= self.last and is_file(file, self.file)

    def has_place(self, place: str) -> bool:
        """Whether `file:line` matches."""
        file, _, line = place.rpartition(":")
        return line.isdecimal() and self.has(file, int(line))


class KernelAtLine(Struct, frozen=True):
    """The part of one kernel that comes from the requested lines."""

    row: KernelOfPart
    launches: tuple[Launch, ...]
    """Its calls that come from these lines; empty if not known."""
    nodes: tuple[Node, ...]
    """Scheduler nodes in the kernel that come from these lines."""
    others: tuple[str, ...]
    """The other lines in the kernel, as `file:line`."""

    @property
    def work(self) -> Work:
        """The bytes and operations of these calls."""
        if self.launches:
            return added(map(work_of_launch, self.launches))
        return self.row.work


def wanted(text: str) -> Wanted:
    """Parse `LINE`, `FILE:LINE` or `FILE:LINE-LINE`.

    Raises:
        TargetError: the text has another form.
    """
    file, _, numbers = text.rpartition(":")
    first, _, last = numbers.partition("-")
    if not (first.isdecimal() and (last or first).isdecimal() and len(numbers) < 20):
        raise SelectionError("line", f"{text}: the line number is missing", "write FILE:LINE, FILE:LINE-LINE or LINE")
    return Wanted(text, file, int(first), int(last or first))


def kernels_of(
    found: Sequence[PartKernels], place_range: Wanted
) -> tuple[tuple[PartKernels, tuple[KernelAtLine, ...]], ...]:
    """Find the kernels that come from some lines, graph part by graph part."""
    by_part = ((part, tuple(each for row in part.rows for each in _of_row(row, place_range))) for part in found)
    return tuple((part, each) for part, each in by_part if each)


def _of_row(row: KernelOfPart, place_range: Wanted) -> Iterator[KernelAtLine]:
    launches = tuple(launch for launch in row.kernel.launches if any(map(place_range.has_place, launch.lines)))
    if not launches and not any(map(place_range.has_place, row.kernel.lines)):
        return
    inside = launches or row.kernel.launches
    operations = {operation for launch in inside for operation in launch.operations}
    nodes = tuple(
        node
        for node in row.nodes
        if any(map(place_range.has_place, node.lines)) and not operations.isdisjoint(node.operations)
    )
    places = dict.fromkeys(place for launch in launches for place in launch.lines) or dict.fromkeys(row.kernel.lines)
    yield KernelAtLine(row, launches, nodes, tuple(place for place in places if not place_range.has_place(place)))


def check_file(session: Session, place_range: Wanted) -> None:
    """Refuse a file that the run does not have.

    Raises:
        TargetError: the run does not have the file.
    """
    known = list(dict.fromkeys(_files(session)))
    if not any(is_file(file, place_range.file) for file in known):
        name = place_range.file.rpartition("/")[2]
        names = [file.rpartition("/")[2] for file in known]
        raise SelectionError("line", f"{place_range.text}: this run has no such file", suggestion(name, names))


def _files(session: Session) -> Iterator[str]:
    for kernel in session.kernels:
        yield from (place.rpartition(":")[0] for place in kernel.lines)
    yield from (at.file for at in lines(session, None))
    for found in (session.compilations, session.functions, session.breaks, session.skips):
        yield from (each.file for each in found)
    yield from session.listings


def why_none(session: Session, place_range: Wanted, graph: str | None) -> str:
    """Explain in sentences why no kernel comes from some lines; empty if not known."""
    reasons = [
        f"The graph breaks here: {each.reason}" for each in session.breaks if place_range.has(each.file, each.line)
    ]
    reasons += [
        f"`{each.function}` runs eagerly. {each.reason}"
        for each in session.skips
        if is_file(each.file, place_range.file) and _contains(session, each.file, each.line, place_range)
    ]
    return " ".join(dict.fromkeys(reasons or _in_graphs(session, place_range, graph)))


def _contains(session: Session, file: str, line: int, place_range: Wanted) -> bool:
    """Whether the source of the function that begins at a line contains all requested lines."""
    try:
        tree = ast.parse(session.listings.get(file, ""))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    begin = ((min([node.lineno, *(each.lineno for each in node.decorator_list)]), node) for node in functions)
    return any(
        line in (first, node.lineno) and first <= place_range.first and place_range.last <= (node.end_lineno or 0)
        for first, node in begin
    )


def _in_graphs(session: Session, place_range: Wanted, graph: str | None) -> Iterator[str]:
    """Describe the last stage of each graph in which the lines have nodes."""
    seen: dict[str, list[NodesAtLine]] = {}
    for number in range(place_range.first, min(place_range.last, place_range.first + _MOST_LINES) + 1):
        for each in of_line(session, f"{place_range.file}:{number}", graph):
            seen.setdefault(each.each.id, []).append(each)
    for id_, stages in seen.items():
        yield f"{id_}: {_fate(stages)}"


def _fate(stages: Sequence[NodesAtLine]) -> str:
    final = [each for each in stages if each.staged.stage is GraphStage.POST_GRAD]
    last = stages[-1].staged
    nodes = [node for each in final or stages[-1:] for node in each.nodes]
    names = dict.fromkeys(op_name(node).removeprefix("aten.") for node in nodes)
    ops = ", ".join(list(names)[:_MOST_OPS])
    if last.is_traced:
        return f"Dynamo traced it ({ops}), but it has no aten ops: its result is unused, or it was constant-folded."
    if all(map(is_view, nodes)):
        return f"only views remain ({ops}); they move no data, so they need no kernel."
    if final:
        return f"its ops ({ops}) are in the final graph; torch does not record which kernel computes them."
    return f"its last stage is {last.label} ({ops}); a later pass removed or replaced it."


def nearest(found: Sequence[PartKernels], place_range: Wanted) -> str:
    """Describe up to eight lines with kernels that are nearest, in the same file if possible."""
    rows = [row for part in found for row in part.rows]
    places = dict.fromkeys(place for row in rows for place in row.kernel.lines)
    split = [(file, int(line)) for file, _, line in (place.rpartition(":") for place in places) if line.isdecimal()]
    inside = [each for each in split if is_file(each[0], place_range.file)] or split
    closest = sorted(sorted(inside, key=lambda each: abs(each[1] - place_range.first))[:8])
    names = ", ".join(f"{PurePath(file).name}:{line}" for file, line in closest)
    if names:
        return f"lines with kernels: {names}"
    return "no line of your code has known kernels"
