"""A compilation's graph in short: its stages, inputs, outputs, and what its backward needs."""

from collections.abc import Iterator
from dataclasses import dataclass

from ctrace.inspector.graphs.inputs import GraphInput, aten_inputs, traced_inputs
from ctrace.inspector.graphs.saved import Again, Kept, again, kept
from ctrace.inspector.graphs.text.aliases import Aliases, Shares, aliases
from ctrace.inspector.graphs.text.fx import FxGraph, FxNode
from ctrace.inspector.graphs.text.ops import counted, operations
from ctrace.inspector.graphs.view import Compiled, Staged
from ctrace.inspector.model.graphs import GraphStage
from ctrace.inspector.model.session import Session


@dataclass(frozen=True, slots=True)
class Row:
    """One stage in short."""

    staged: Staged
    nodes: int
    ops: int
    counts: tuple[tuple[str, int], ...]
    """Operations by name, most first."""
    same_as: str = ""
    """An earlier stage with the very same nodes."""


@dataclass(frozen=True, slots=True)
class Changed:
    """An input that the graph changes in place."""

    name: str
    role: str
    data: bool
    metadata: bool


@dataclass(frozen=True, slots=True)
class Result:
    """One thing that the user's code gets back."""

    text: str
    """The node's name in Dynamo's graph, or a constant."""
    node: FxNode | None
    shares: Shares | None
    """None: not known."""
    base: str = ""
    """The user's name of the input that it is, or is a view of."""


@dataclass(frozen=True, slots=True)
class Overview:
    """All of it."""

    each: Compiled
    rows: tuple[Row, ...]
    inputs: tuple[GraphInput, ...]
    changed: tuple[Changed, ...] | None
    """None: AOTAutograd's entry is not in the log."""
    results: tuple[Result, ...]
    kept: Kept | None
    again: Again | None
    notes: tuple[str, ...]
    """What could not be read, or does not agree."""


def overview(session: Session, each: Compiled) -> Overview:
    """Sum up one compilation's graph."""
    traced = traced_inputs(session, each)
    forward = each.forward
    names = aten_inputs(forward, traced) if forward else {}
    told = aliases(each.graphs.metadata)
    return Overview(
        each=each,
        rows=rows(each),
        inputs=traced,
        changed=None if told is None else tuple(_changed(told, forward, names)),
        results=tuple(_results(each, told, forward, names)),
        kept=kept(each, names),
        again=again(each),
        notes=tuple(notes(each)),
    )


def rows(each: Compiled) -> tuple[Row, ...]:
    """Count every stage; one with the same nodes as an earlier one is said to be so."""
    found: list[Row] = []
    for staged in each.stages:
        graph = staged.graph
        if graph is None:
            found.append(Row(staged, 0, 0, ()))
            continue
        same = next((row for row in reversed(found) if row.staged.graph and _alike(row.staged.graph, graph)), None)
        ops = operations(graph)
        nodes = sum(1 for _ in graph.everything())
        found.append(Row(staged, nodes, len(ops), counted(ops), (same.same_as or same.staged.label) if same else ""))
    return tuple(found)


def _alike(one: FxGraph, other: FxGraph) -> bool:
    return [_said(node) for node in one.everything()] == [_said(node) for node in other.everything()]


def _said(node: FxNode) -> tuple[str, str, str]:
    return node.name, node.target, node.args


def _changed(told: Aliases, forward: FxGraph | None, names: dict[str, GraphInput]) -> Iterator[Changed]:
    for each in told.inputs:
        if each.is_changed:
            name, role = _input_name(each.index, told, forward, names)
            yield Changed(name, role, each.data, each.metadata)


def _input_name(index: int, told: Aliases, forward: FxGraph | None, names: dict[str, GraphInput]) -> tuple[str, str]:
    """Name an input by its place; that holds where AOTAutograd added no inputs of its own."""
    nodes = forward.placeholders() if forward else ()
    if len(nodes) != len(told.inputs) or index >= len(nodes):
        return f"input {index}", ""
    named = names.get(nodes[index].name)
    return (named.name, named.role) if named else (nodes[index].name, "")


def _results(
    each: Compiled, told: Aliases | None, forward: FxGraph | None, names: dict[str, GraphInput]
) -> Iterator[Result]:
    graph = each.first(GraphStage.DYNAMO, GraphStage.PRE_GRAD, GraphStage.BEFORE_PRE_GRAD)
    if graph is None:
        return
    nodes = {node.name: node for node in graph.nodes}
    shared = told.outputs if told and len(told.outputs) == len(graph.outputs) else ()
    for at, output in enumerate(graph.outputs):
        shares, base = shared[at].shares if shared else None, ""
        if shared and shares in (Shares.INPUT, Shares.VIEW_OF_INPUT) and told and shared[at].base is not None:
            base = _input_name(shared[at].base or 0, told, forward, names)[0]
        yield Result(output.text, nodes.get(output.text), shares, base)


def notes(each: Compiled) -> Iterator[str]:
    """Say what of a compilation's graphs could not be read, and where torch's own entries disagree with the text."""
    for staged in each.stages:
        graph = staged.graph
        if graph is None:
            yield f"{staged.label}: the text holds no graph that can be read; it is shown as it is"
            continue
        unread = sum(len(one.unread) for one in graph.whole())
        if unread:
            whole = unread + sum(1 for _ in graph.everything())
            yield f"{staged.label}: {unread} of {whole} nodes could not be read"
        yield from _disagreements(staged, graph)


def _disagreements(staged: Staged, graph: FxGraph) -> Iterator[str]:
    types = {node.name: node.type for node in graph.nodes}
    sizes = staged.printed.sizes
    lost = [name for name in sizes if name not in types]
    other = [name for name, size in sizes.items() if (type_ := types.get(name)) and type_.sizes != size]
    for names, what in ((lost, "are not in its text"), (other, "have other sizes in its text")):
        if names:
            yield f"{staged.label}: {len(names)} nodes that torch lists {what}: {', '.join(names[:3])}"
