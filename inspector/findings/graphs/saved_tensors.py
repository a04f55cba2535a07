"""List what a graph saves for its backward, and what the backward recomputes instead."""

import re

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.facts.graph_facts import GraphStage
from ctrace.inspector.findings.graphs.bytes import Memory, memory_of
from ctrace.inspector.findings.graphs.fx import FxNode, FxNodeKind
from ctrace.inspector.findings.graphs.graph_inputs import GraphInput
from ctrace.inspector.findings.graphs.graph_view import CompiledGraph
from ctrace.inspector.findings.graphs.ops import is_view, memory_root, operations

_SAVED = re.compile(r"SavedForBackwards\w*AOTOutput\b")


class SavedTensor(Struct, frozen=True):
    """One tensor or number that a forward saves for its backward."""

    node: FxNode
    root: FxNode
    """The node that owns its memory; for a view, the base of the view."""
    memory: Memory | None
    """The bytes of its whole storage; None for a number."""
    input: GraphInput | None = None
    """The graph input whose memory it shares, which stays alive in any case; None if there is none."""

    is_returned: bool = False
    """Whether an output that the user's code gets shares the memory."""

    @property
    def is_made(self) -> bool:
        """Whether the saved value keeps memory alive that the forward allocated."""
        return self.memory is not None and self.root.kind is not FxNodeKind.PLACEHOLDER


class SavedByForward(Struct, frozen=True):
    """Everything that a forward saves."""

    saved: tuple[SavedTensor, ...]
    """The saved values, largest first; two views of the same memory are two values."""
    made: int | None
    """Bytes that the forward allocates and saves, counting each storage once; None if not all sizes are known."""
    symbols: tuple[str, ...]
    """The symbols on which these bytes depend."""


class Recomputed(Struct, frozen=True):
    """What the backward recomputes."""

    nodes: tuple[FxNode, ...]
    """The forward's operations that the backward repeats."""
    views: int
    """How many views the backward repeats, which costs nothing."""


def kept(each: CompiledGraph, names: dict[str, GraphInput]) -> SavedByForward | None:
    """Return what the forward saves; None if there is no backward or the log does not say."""
    forward, backward = each.first(GraphStage.FORWARD), each.first(GraphStage.BACKWARD)
    if forward is None or backward is None:
        return None
    nodes = {node.name: node for node in forward.nodes}
    read = {node.name for node in backward.placeholders()}
    described = any(output.described for output in forward.outputs)
    saved, returned = [], set()
    for output in forward.outputs:
        is_saved = _SAVED.match(output.described) if described else output.text in read
        if not is_saved:
            returned.add(memory_root(nodes, output.text))
        elif (node := nodes.get(output.text)) is not None:
            saved.append(_saved(node, nodes, names, each.values))
    return _summed([replace(one, is_returned=one.root.name in returned) for one in saved])


def _saved(node: FxNode, nodes: dict[str, FxNode], names: dict[str, GraphInput], values: dict[str, str]) -> SavedTensor:
    root = nodes.get(memory_root(nodes, node.name), node)
    type_ = root.type or node.type
    return SavedTensor(node, root, memory_of(type_, values) if node.type and type_ else None, names.get(root.name))


def _summed(saved: list[SavedTensor]) -> SavedByForward:
    storages = {each.root.name: each.memory for each in saved if each.is_made and each.memory is not None}
    known = [memory.bytes for memory in storages.values() if memory.bytes is not None]
    ordered = sorted(saved, key=lambda each: (not each.is_made, -((each.memory and each.memory.bytes) or 0)))
    symbols = dict.fromkeys(name for memory in storages.values() for name in memory.symbols)
    return SavedByForward(tuple(ordered), sum(known) if len(known) == len(storages) else None, tuple(symbols))


def recomputed(each: CompiledGraph) -> Recomputed | None:
    """Return what the backward recomputes; None if there is no backward or the log does not say.

    Both parts keep the node names of the joint graph: `_extract_fwd_bwd_modules` copies nodes with their names (2.13,
    _functorch/partitioners.py).
    """
    forward, backward = each.first(GraphStage.FORWARD), each.first(GraphStage.BACKWARD)
    if forward is None or backward is None:
        return None
    made = {(node.name, node.target) for node in operations(forward)}
    repeated = [node for node in operations(backward) if (node.name, node.target) in made]
    nodes = tuple(node for node in repeated if not is_view(node))
    return Recomputed(nodes, len(repeated) - len(nodes))
