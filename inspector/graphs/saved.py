"""List what a graph saves for its backward, and what the backward recomputes instead."""

import re

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.graphs.inputs import GraphInput
from ctrace.inspector.graphs.text.bytes import Memory, memory_of
from ctrace.inspector.graphs.text.fx import FxGraph, FxNode, Kind
from ctrace.inspector.graphs.text.ops import is_view, memory_root, operations
from ctrace.inspector.graphs.view import Compiled
from ctrace.inspector.model.graphs import GraphStage

_SAVED = re.compile(r"SavedForBackwards\w*AOTOutput\b")


class Saved(Struct, frozen=True):
    """One tensor or number that a forward saves for its backward."""

    node: FxNode
    root: FxNode
    """The node that owns its memory: itself, or the base of the view."""
    memory: Memory | None
    """The bytes of its whole storage; None for a number."""
    input: GraphInput | None = None
    """The graph input that it is or views; the input's memory stays alive anyway."""

    is_returned: bool = False
    """Whether an output to the user shares the memory."""

    @property
    def is_made(self) -> bool:
        """Whether the saved value keeps memory alive that the forward allocated."""
        return self.memory is not None and self.root.kind is not Kind.PLACEHOLDER


class Kept(Struct, frozen=True):
    """Everything that a forward saves."""

    saved: tuple[Saved, ...]
    """The saved values, largest first; two views of the same memory both appear."""
    made: int | None
    """Bytes that the forward allocates and saves, each storage once; None if not all sizes are known."""
    symbols: tuple[str, ...]
    """Symbols that the bytes depend on."""


class Recomputed(Struct, frozen=True):
    """What the backward recomputes."""

    nodes: tuple[FxNode, ...]
    """Operations of the forward that occur in the backward too."""
    views: int
    """The number of repeated views, which cost nothing."""


def kept(each: Compiled, names: dict[str, GraphInput]) -> Kept | None:
    """Return what is saved for the backward, or None without a backward or if the log does not say."""
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
            returned.add(memory_root(forward, output.text))
        elif (node := nodes.get(output.text)) is not None:
            saved.append(_saved(node, forward, names, each.values))
    return _summed([replace(one, is_returned=one.root.name in returned) for one in saved])


def _saved(node: FxNode, forward: FxGraph, names: dict[str, GraphInput], values: dict[str, str]) -> Saved:
    root = forward.node(memory_root(forward, node.name)) or node
    type_ = root.type or node.type
    return Saved(node, root, memory_of(type_, values) if node.type and type_ else None, names.get(root.name))


def _summed(saved: list[Saved]) -> Kept:
    storages = {each.root.name: each.memory for each in saved if each.is_made and each.memory is not None}
    known = [memory.bytes for memory in storages.values() if memory.bytes is not None]
    ordered = sorted(saved, key=lambda each: (not each.is_made, -((each.memory and each.memory.bytes) or 0)))
    symbols = dict.fromkeys(name for memory in storages.values() for name in memory.symbols)
    return Kept(tuple(ordered), sum(known) if len(known) == len(storages) else None, tuple(symbols))


def recomputed(each: Compiled) -> Recomputed | None:
    """Return what the backward recomputes, or None without a backward or if the log does not say.

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
