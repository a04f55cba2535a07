"""Group nodes by the user's line that created them, and name a graph's inputs as the user does.

Torch names inputs `primals_3` or `L_self_modules_fc_...`; the user's names follow from what Dynamo traced.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.facts.graph_facts import GraphStage
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.fx import At, FxGraph, FxNode, FxNodeKind
from ctrace.inspector.findings.graphs.graph_view import CompiledGraph, Staged, compiled, with_modules


class LineGroup(Struct, frozen=True):
    """Consecutive nodes that come from one line; `at` is None if torch does not know the line."""

    at: At | None
    nodes: tuple[FxNode, ...]


class NodesAtLine(Struct, frozen=True):
    """The nodes that come from a line, in one graph at one stage."""

    JSON: ClassVar[str] = "graph=each.id stage=staged.label nodes"
    each: CompiledGraph
    staged: Staged
    nodes: tuple[FxNode, ...]


def groups(graph: FxGraph) -> tuple[LineGroup, ...]:
    """Group the calls and constants of a graph by line, in printed order; leave out inputs and output."""
    found: list[tuple[At | None, list[FxNode]]] = []
    for node in graph.nodes:
        if node.kind in (FxNodeKind.PLACEHOLDER, FxNodeKind.OUTPUT):
            continue
        # Only consecutive nodes: a line that comes twice, as in a loop, stays in the order in which it runs.
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
        nodes = with_modules(each, staged, (node for node in _everything(staged.graph) if is_at(node.at, place)))
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
    # Without a node in that file, lines of any file still show how one is named.
    closest = sorted(known or lines(session, graph), key=lambda at: abs(at.line - number))[:8]
    return tuple(sorted(closest, key=lambda at: (at.file, at.line)))


_PLAIN = re.compile(r"PlainAOTInput\(idx=(\d{1,6})\)")
_NAMED = re.compile(r"(?:Param|Buffer)AOTInput\(target='([^']+)'\)")
_ODD = re.compile(r"[^a-zA-Z0-9]+")


class GraphInput(Struct, frozen=True):
    """One input of a graph."""

    JSON: ClassVar[str] = "name role|null_if_empty *node.value"
    node: FxNode
    name: str
    """The user's name for it if known, else torch's name."""
    role: str
    """`input`, `parameter`, `buffer`, `number`, `size` for a symbolic number, or empty if the log does not say."""


def traced_inputs(session: Session, each: CompiledGraph) -> tuple[GraphInput, ...]:
    """Return the inputs of the graph that Dynamo traced, in order, with the user's names."""
    # A log of some releases or settings lacks Dynamo's own print; Inductor's first ones have the same inputs.
    graph = each.first(GraphStage.DYNAMO, GraphStage.PRE_GRAD, GraphStage.BEFORE_PRE_GRAD)
    if graph is None:
        return ()
    sources = _sources(session, each.id)
    return tuple(_traced(node, sources, each) for node in graph.placeholders())


def _sources(session: Session, compile_id: str) -> dict[str, tuple[str, str]]:
    """Return names and roles, keyed by Dynamo's mangled source (2.13, _dynamo/variables/builder.py, `wrap_tensor`)."""
    found: dict[str, set[tuple[str, str]]] = {}
    for shaped in session.shapes:
        if shaped.compilation == compile_id:
            for tensor in shaped.tensors:
                found.setdefault(_mangled(tensor.source), set()).add((tensor.name, tensor.role))
    # Mangling is not unique, e.g. for `L['a.b']` and `L['a_b']`: then no name is better than a wrong one.
    return {key: next(iter(names)) for key, names in found.items() if len(names) == 1}


def _mangled(source: str) -> str:
    return _ODD.sub("_", source).strip("_").lower()


def _traced(node: FxNode, sources: Mapping[str, tuple[str, str]], each: CompiledGraph) -> GraphInput:
    name, role = sources.get(_mangled(node.target), ("", ""))
    if node.symbol:
        meant = each.graphs.symbols.get(node.symbol)
        return GraphInput(node, meant.name if meant else name or node.target, "size")
    return GraphInput(node, name or node.target, role)


def aten_inputs(graph: FxGraph, traced: tuple[GraphInput, ...]) -> dict[str, GraphInput]:
    """Return the user's inputs of an AOTAutograd graph, keyed by node name; leave out inputs that AOTAutograd adds."""
    found = {}
    for node in graph.placeholders():
        known = _known(node, traced)
        if known is not None:
            found[node.name] = GraphInput(node, known[0], known[1])
    return found


def _known(node: FxNode, traced: tuple[GraphInput, ...]) -> tuple[str, str] | None:
    if match := _NAMED.fullmatch(node.described):
        return match[1], "parameter" if node.described.startswith("Param") else "buffer"
    match = _PLAIN.fullmatch(node.described)
    at = int(match[1]) if match else len(traced)
    # AOTAutograd's number alone is no proof that it is the same input.
    if at >= len(traced) or not _is_same(traced[at].node, node):
        return None
    return traced[at].name, traced[at].role


def _is_same(one: FxNode, other: FxNode) -> bool:
    """Whether an input of Dynamo's graph and one of AOTAutograd's can be the same: they have one type or symbol."""
    if one.type is None or other.type is None:
        return one.symbol == other.symbol
    return (one.type.dtype, one.type.sizes) == (other.type.dtype, other.type.sizes)
