"""Which kernels a line of the user's became, and why it became none."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from ctrace.inspector.errors import SelectionError
from ctrace.inspector.graphs.lines import OfLine as OfStage
from ctrace.inspector.graphs.lines import is_file, lines, of_line
from ctrace.inspector.graphs.text.ops import is_view, op_name
from ctrace.inspector.kernels.view import Part, Row, Work, added, suggestion, work_of_launch
from ctrace.inspector.model.fusion import Node
from ctrace.inspector.model.graphs import GraphStage
from ctrace.inspector.model.kernels import Launch
from ctrace.inspector.model.session import Session

_MOST_LINES = 200
"""Of a range, whose nodes are looked for in graphs."""
_MOST_OPS = 6


@dataclass(frozen=True, slots=True)
class Wanted:
    """A place as the user wrote it: lines of a file, which is named by the end of its path."""

    text: str
    file: str
    """Empty: any."""
    first: int
    last: int

    def has(self, file: str, line: int) -> bool:
        """Whether a line is meant."""
        return self.first <= line <= self.last and is_file(file, self.file)

    def has_place(self, place: str) -> bool:
        """Whether `file:line` is meant."""
        file, _, line = place.rpartition(":")
        return line.isdecimal() and self.has(file, int(line))


@dataclass(frozen=True, slots=True)
class OfLine:
    """What one kernel has of some lines."""

    row: Row
    launches: tuple[Launch, ...]
    """Its calls that are of these lines; empty: not known."""
    nodes: tuple[Node, ...]
    """Nodes of the scheduler that are, and are in the kernel."""
    others: tuple[str, ...]
    """The other lines that are in it, as `file:line`."""

    @property
    def work(self) -> Work:
        """What those calls move and compute."""
        return added(map(work_of_launch, self.launches)) if self.launches else self.row.work


def wanted(text: str) -> Wanted:
    """Read `LINE`, `FILE:LINE` or `FILE:LINE-LINE`.

    Raises:
        TargetError: it is none of them.
    """
    file, _, numbers = text.rpartition(":")
    first, _, last = numbers.partition("-")
    if not (first.isdecimal() and (last or first).isdecimal() and len(numbers) < 20):
        raise SelectionError("line", f"{text}: there is no line number", "write FILE:LINE, FILE:LINE-LINE or LINE")
    return Wanted(text, file, int(first), int(last or first))


def kernels_of(found: Sequence[Part], asked: Wanted) -> tuple[tuple[Part, tuple[OfLine, ...]], ...]:
    """Find the kernels of some lines, by graph part."""
    told = ((part, tuple(each for row in part.rows for each in _of_row(row, asked))) for part in found)
    return tuple((part, each) for part, each in told if each)


def _of_row(row: Row, asked: Wanted) -> Iterator[OfLine]:
    launches = tuple(launch for launch in row.kernel.launches if any(map(asked.has_place, launch.lines)))
    if not launches and not any(map(asked.has_place, row.kernel.lines)):
        return
    inside = launches or row.kernel.launches
    operations = {operation for launch in inside for operation in launch.operations}
    nodes = tuple(
        node
        for node in row.nodes
        if any(map(asked.has_place, node.lines)) and not operations.isdisjoint(node.operations)
    )
    places = dict.fromkeys(place for launch in launches for place in launch.lines) or dict.fromkeys(row.kernel.lines)
    yield OfLine(row, launches, nodes, tuple(place for place in places if not asked.has_place(place)))


def check_file(session: Session, asked: Wanted) -> None:
    """Refuse a file of which the run knows nothing.

    Raises:
        TargetError: it is such a file.
    """
    known = list(dict.fromkeys(_files(session)))
    if not any(is_file(file, asked.file) for file in known):
        name = asked.file.rpartition("/")[2]
        names = [file.rpartition("/")[2] for file in known]
        raise SelectionError("line", f"{asked.text}: this run knows no such file", suggestion(name, names))


def _files(session: Session) -> Iterator[str]:
    for kernel in session.kernels:
        yield from (place.rpartition(":")[0] for place in kernel.lines)
    yield from (at.file for at in lines(session, None))
    for found in (session.compilations, session.functions, session.breaks, session.skips):
        yield from (each.file for each in found)
    yield from session.listings


def why_none(session: Session, asked: Wanted, graph: str | None) -> str:
    """Say in sentences why no kernel is of some lines; empty: not known."""
    told = [f"The graph breaks here: {each.reason}" for each in session.breaks if asked.has(each.file, each.line)]
    told += [
        f"`{each.function}` is left in eager. {each.reason}"
        for each in session.skips
        if is_file(each.file, asked.file) and _holds(session, each.file, each.line, asked)
    ]
    return " ".join(dict.fromkeys(told or _in_graphs(session, asked, graph)))


def _holds(session: Session, file: str, line: int, asked: Wanted) -> bool:
    """Whether the function that begins at a line has all the lines that are asked for, as far as its source tells."""
    try:
        tree = ast.parse(session.listings.get(file, ""))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    begin = ((min([node.lineno, *(each.lineno for each in node.decorator_list)]), node) for node in functions)
    return any(
        line in (first, node.lineno) and first <= asked.first and asked.last <= (node.end_lineno or 0)
        for first, node in begin
    )


def _in_graphs(session: Session, asked: Wanted, graph: str | None) -> Iterator[str]:
    """Say how far the lines came on their way through the stages of each graph."""
    seen: dict[str, list[OfStage]] = {}
    for number in range(asked.first, min(asked.last, asked.first + _MOST_LINES) + 1):
        for each in of_line(session, f"{asked.file}:{number}", graph):
            seen.setdefault(each.each.id, []).append(each)
    for id_, stages in seen.items():
        yield f"{id_}: {_fate(stages)}"


def _fate(stages: Sequence[OfStage]) -> str:
    final = [each for each in stages if each.staged.stage is GraphStage.POST_GRAD]
    last = stages[-1].staged
    nodes = [node for each in final or stages[-1:] for node in each.nodes]
    names = dict.fromkeys(op_name(node).removeprefix("aten.") for node in nodes)
    ops = ", ".join(list(names)[:_MOST_OPS])
    if last.is_traced:
        return f"Dynamo traced it ({ops}), and no aten op came of it: nothing needs it, or it is known beforehand."
    if all(map(is_view, nodes)):
        return f"only views are left of it ({ops}); they move nothing, so no kernel is needed."
    if final:
        return f"its ops ({ops}) are in the last graph; torch does not say which kernel computes them."
    return f"it was last seen at stage {last.label} ({ops}); a later pass removed or replaced it."


def nearest(found: Sequence[Part], asked: Wanted) -> str:
    """Name up to eight lines that have kernels, those of the file and near the line first."""
    places = dict.fromkeys(place for part in found for row in part.rows for place in row.kernel.lines)
    split = [(file, int(line)) for file, _, line in (place.rpartition(":") for place in places) if line.isdecimal()]
    inside = [each for each in split if is_file(each[0], asked.file)] or split
    closest = sorted(sorted(inside, key=lambda each: abs(each[1] - asked.first))[:8])
    names = ", ".join(f"{PurePath(file).name}:{line}" for file, line in closest)
    return f"lines that have kernels: {names}" if names else "no line of yours is known to have any"
