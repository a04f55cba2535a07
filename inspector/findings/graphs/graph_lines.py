"""Group nodes by the user's line that created them."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.fx import At, FxGraph, FxNode, FxNodeKind
from ctrace.inspector.findings.graphs.graph_view import CompiledGraph, Staged, compiled


class LineGroup(Struct, frozen=True):
    """Consecutive nodes that come from one line; `at` is None if torch does not know the line."""

    at: At | None
    nodes: tuple[FxNode, ...]


class NodesAtLine(Struct, frozen=True):
    """The nodes that come from a line, in one graph at one stage."""

    each: CompiledGraph
    staged: Staged
    nodes: tuple[FxNode, ...]


def groups(graph: FxGraph) -> tuple[LineGroup, ...]:
    """Group the calls and constants of a graph by line, in printed order; leave out inputs and output."""
    found: list[tuple[At | None, list[FxNode]]] = []
    for node in graph.nodes:
        if node.kind in (FxNodeKind.PLACEHOLDER, FxNodeKind.OUTPUT):
            continue
        if not found or found[-1][0] != node.at:
            found.append((node.at, []))
        found[-1][1].append(node)
    return tuple(LineGroup(at, tuple(nodes)) for at, nodes in found)


def is_at(at: At | None, place: str) -> bool:
    """Whether a place matches `FILE:LINE` or `LINE`; `FILE` may be only the end of the path."""
    if at is None:
        return False
    file, _, line = place.rpartition(":")
    return str(at.line) == line and is_file(at.file, file)


def is_file(file: str, end: str) -> bool:
    """Whether a file's path ends with `end`; an empty `end` matches any file."""
    return not end or f"/{file}".endswith(f"/{end}")


def of_line(session: Session, place: str, graph: str | None) -> tuple[NodesAtLine, ...]:
    """Find the nodes that a line created, in every stage of every graph.

    Raises:
        TargetError: there is no such graph.
    """
    return tuple(found for each in compiled(session, graph) for found in _of_line(each, place))


def _of_line(each: CompiledGraph, place: str) -> Iterator[NodesAtLine]:
    for staged in each.stages:
        nodes = tuple(node for node in _everything(staged.graph) if is_at(node.at, place))
        if nodes:
            yield NodesAtLine(each, staged, nodes)


def _everything(graph: FxGraph | None) -> Iterable[FxNode]:
    return graph.everything() if graph else ()


def lines(session: Session, graph: str | None) -> tuple[At, ...]:
    """List all lines that created nodes, each once, in the order of their first node."""
    found: dict[tuple[str, int], At] = {}
    for each in compiled(session, graph):
        for staged in each.stages:
            for node in _everything(staged.graph):
                if node.at is not None:
                    found.setdefault((node.at.file, node.at.line), node.at)
    return tuple(found.values())


def near(session: Session, graph: str | None, place: str) -> tuple[At, ...]:
    """List the lines with nodes that are nearest to `LINE` or `FILE:LINE`, up to eight."""
    file, _, line = place.rpartition(":")
    known = [at for at in lines(session, graph) if is_file(at.file, file)]
    number = int(line) if line.isdecimal() else 0
    closest = sorted(known or lines(session, graph), key=lambda at: abs(at.line - number))[:8]
    return tuple(sorted(closest, key=lambda at: (at.file, at.line)))
