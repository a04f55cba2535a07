"""Summarize a compilation's graph: its stages, inputs, outputs, and what its backward needs."""

from collections.abc import Iterator

from msgspec import Struct

from ctrace.inspector.facts.graph_facts import GraphStage
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.aliases import Aliases, Shares, aliases
from ctrace.inspector.findings.graphs.fx import FxGraph, FxNode
from ctrace.inspector.findings.graphs.graph_inputs import GraphInput, aten_inputs, traced_inputs
from ctrace.inspector.findings.graphs.graph_view import CompiledGraph, Staged
from ctrace.inspector.findings.graphs.ops import counted, operations
from ctrace.inspector.findings.graphs.saved_tensors import Recomputed, SavedByForward, kept, recomputed


class StageRow(Struct, frozen=True):
    """The summary of one stage."""

    staged: Staged
    nodes: int
    ops: int
    counts: tuple[tuple[str, int], ...]
    """How often each operation occurs, the most frequent first."""
    same_as: str = ""
    """The label of an earlier stage with the same nodes; empty if there is none."""


class Changed(Struct, frozen=True):
    """An input that the graph mutates."""

    name: str
    role: str
    data: bool
    metadata: bool


class Result(Struct, frozen=True):
    """One value that the graph returns to the user's code."""

    text: str
    """The node's name in Dynamo's graph, or a constant."""
    node: FxNode | None
    shares: Shares | None
    """None if not known."""
    base: str = ""
    """The user's name for the input that it is or of which it is a view; empty if there is none."""


class Overview(Struct, frozen=True):
    """The whole summary."""

    each: CompiledGraph
    rows: tuple[StageRow, ...]
    inputs: tuple[GraphInput, ...]
    changed: tuple[Changed, ...] | None
    """None if the log lacks AOTAutograd's entry."""
    results: tuple[Result, ...]
    kept: SavedByForward | None
    recomputed: Recomputed | None
    notes: tuple[str, ...]
    """Text that could not be parsed, and contradictions."""


def overview(session: Session, each: CompiledGraph) -> Overview:
    """Summarize one compilation's graph."""
    traced = traced_inputs(session, each)
    forward = each.forward
    names = aten_inputs(forward, traced) if forward else {}
    aliasing = aliases(each.graphs.metadata)
    return Overview(
        each=each,
        rows=rows(each),
        inputs=traced,
        changed=None if aliasing is None else tuple(_changed(aliasing, forward, names)),
        results=tuple(_results(each, aliasing, forward, names)),
        kept=kept(each, names),
        recomputed=recomputed(each),
        notes=tuple(notes(each)),
    )


def rows(each: CompiledGraph) -> tuple[StageRow, ...]:
    """Count the nodes and ops of every stage, and mark a stage that equals an earlier one."""
    found: list[StageRow] = []
    first: dict[tuple[tuple[str, str, str], ...], str] = {}
    for staged in each.stages:
        graph = staged.graph
        if graph is None:
            found.append(StageRow(staged, 0, 0, ()))
            continue
        signature = tuple((node.name, node.target, node.args) for node in graph.everything())
        same_as = first.setdefault(signature, staged.label)
        ops = operations(graph)
        found.append(
            StageRow(staged, len(signature), len(ops), counted(ops), "" if same_as == staged.label else same_as)
        )
    return tuple(found)


def _changed(aliasing: Aliases, forward: FxGraph | None, names: dict[str, GraphInput]) -> Iterator[Changed]:
    for each in aliasing.inputs:
        if each.is_changed:
            name, role = _input_name(each.index, aliasing, forward, names)
            yield Changed(name, role, each.data, each.metadata)


def _input_name(
    index: int, aliasing: Aliases, forward: FxGraph | None, names: dict[str, GraphInput]
) -> tuple[str, str]:
    """Name an input by its position; the position is only valid if AOTAutograd added no inputs."""
    nodes = forward.placeholders() if forward else ()
    if len(nodes) != len(aliasing.inputs) or index >= len(nodes):
        return f"input {index}", ""
    named = names.get(nodes[index].name)
    if named:
        return (named.name, named.role)
    return (nodes[index].name, "")


def _results(
    each: CompiledGraph, aliasing: Aliases | None, forward: FxGraph | None, names: dict[str, GraphInput]
) -> Iterator[Result]:
    graph = each.first(GraphStage.DYNAMO, GraphStage.PRE_GRAD, GraphStage.BEFORE_PRE_GRAD)
    if graph is None:
        return
    nodes = {node.name: node for node in graph.nodes}
    shared = aliasing.outputs if aliasing and len(aliasing.outputs) == len(graph.outputs) else ()
    for at, output in enumerate(graph.outputs):
        shares, base = shared[at].shares if shared else None, ""
        if shared and shares in (Shares.INPUT, Shares.VIEW_OF_INPUT) and aliasing and shared[at].base is not None:
            base = _input_name(shared[at].base or 0, aliasing, forward, names)[0]
        yield Result(output.text, nodes.get(output.text), shares, base)


def notes(each: CompiledGraph) -> Iterator[str]:
    """Report graphs that could not be parsed, and torch's log entries that contradict the text."""
    for staged in each.stages:
        graph = staged.graph
        if graph is None:
            yield f"{staged.label}: ctrace cannot parse a graph in this text and shows it as it is"
            continue
        unread = sum(len(one.unread) for one in graph.whole())
        if unread:
            total = unread + sum(1 for _ in graph.everything())
            yield f"{staged.label}: {unread} of {total} nodes could not be read"
        yield from _disagreements(staged, graph)


def _disagreements(staged: Staged, graph: FxGraph) -> Iterator[str]:
    types = {node.name: node.type for node in graph.nodes}
    sizes = staged.printed.sizes
    lost = [name for name in sizes if name not in types]
    other = [name for name, size in sizes.items() if (type_ := types.get(name)) and type_.sizes != size]
    for names, what in ((lost, "are not in its text"), (other, "have other sizes in its text")):
        if names:
            yield f"{staged.label}: {len(names)} nodes that torch lists {what}: {', '.join(names[:3])}"
