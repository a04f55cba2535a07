"""Find the user's names for a graph's inputs, which torch names `primals_3` or `L_self_modules_fc_...`."""

import re
from collections.abc import Mapping

from msgspec import Struct

from ctrace.inspector.facts.graph_facts import GraphStage
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.fx import FxGraph, FxNode
from ctrace.inspector.findings.graphs.graph_view import CompiledGraph

_PLAIN = re.compile(r"PlainAOTInput\(idx=(\d{1,6})\)")
_NAMED = re.compile(r"(?:Param|Buffer)AOTInput\(target='([^']+)'\)")
_ODD = re.compile(r"[^a-zA-Z0-9]+")


class GraphInput(Struct, frozen=True):
    """One input of a graph."""

    node: FxNode
    name: str
    """The user's name for it if known, else torch's name."""
    role: str
    """`input`, `parameter`, `buffer`, `number`, `size` for a symbolic number, or empty if the log does not say."""


def traced_inputs(session: Session, each: CompiledGraph) -> tuple[GraphInput, ...]:
    """Return the inputs of the graph that Dynamo traced, in order, with the user's names."""
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
    if at >= len(traced) or not _is_same(traced[at].node, node):
        return None
    return traced[at].name, traced[at].role


def _is_same(one: FxNode, other: FxNode) -> bool:
    """Whether an input of Dynamo's graph and one of AOTAutograd's can be the same: they have one type or symbol."""
    if one.type is None or other.type is None:
        return one.symbol == other.symbol
    return (one.type.dtype, one.type.sizes) == (other.type.dtype, other.type.sizes)
