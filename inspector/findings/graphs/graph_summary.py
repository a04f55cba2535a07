"""Summarize a compilation's graph: its stages, inputs and outputs, and what its backward keeps or recomputes.

Which inputs are mutated and which outputs alias them is in the repr of AOTAutograd's ViewAndMutationMeta, a dataclass
(2.13, _functorch/_aot_autograd/schemas.py).
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.facts.graph_facts import GraphStage
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.target_gpu import Basis
from ctrace.inspector.findings.graphs.attention_view import AttentionGroup, answers
from ctrace.inspector.findings.graphs.fx import (
    At,
    FxGraph,
    FxNode,
    FxNodeKind,
    Memory,
    counted,
    is_view,
    memory_of,
    memory_root,
    operations,
)
from ctrace.inspector.findings.graphs.graph_lines import GraphInput, aten_inputs, traced_inputs
from ctrace.inspector.findings.graphs.graph_view import CompiledGraph, Staged
from ctrace.inspector.findings.graphs.passes_view import PassRun, runs

_SAVED = re.compile(r"SavedForBackwards\w*AOTOutput\b")


class SavedTensor(Struct, frozen=True):
    """One tensor or number that a forward saves for its backward."""

    JSON: ClassVar[str] = (
        "name=node.name bytes=memory.bytes memory_of=root.name made=is_made input=input.name output=is_returned "
        "*node.value file=at.file|relative line=at.line source=at.code"
    )
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

    @property
    def at(self) -> At | None:
        """The line that made its memory."""
        return self.root.at or self.node.at


class SavedByForward(Struct, frozen=True):
    """Everything that a forward saves."""

    JSON: ClassVar[str] = "basis=FIGURES bytes=made symbols tensors=saved"
    FIGURES: ClassVar[Basis] = Basis.COMPUTED
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
        # Without torch's descriptions, what the backward takes under the same name was saved for it.
        is_saved = _SAVED.match(output.described) if described else output.text in read
        if not is_saved:
            returned.add(memory_root(nodes, output.text))
        elif (node := nodes.get(output.text)) is not None:
            saved.append(_saved(node, nodes, names, each.values))
    return _summed([replace(one, is_returned=one.root.name in returned) for one in saved])


def _saved(node: FxNode, nodes: dict[str, FxNode], names: dict[str, GraphInput], values: dict[str, str]) -> SavedTensor:
    root = nodes.get(memory_root(nodes, node.name), node)
    # A view keeps its whole base alive, so the base's size counts.
    type_ = root.type or node.type
    return SavedTensor(node, root, memory_of(type_, values) if node.type and type_ else None, names.get(root.name))


def _summed(saved: list[SavedTensor]) -> SavedByForward:
    # By storage: two saved views of one tensor keep its memory once.
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
    # The op counts as well as the name: a pass may give a name that became free to another op.
    repeated = [node for node in operations(backward) if (node.name, node.target) in made]
    nodes = tuple(node for node in repeated if not is_view(node))
    return Recomputed(nodes, len(repeated) - len(nodes))


_FLAG = re.compile(r"\b(\w+)=(True|False)")
_OUTPUT_TYPE = re.compile(r"output_type=<OutputType\.(\w+)")
_BASE = re.compile(r"base_idx=(\d+|None)")


class Shares(StrEnum):
    """Whose memory an output shares, in torch's terms (`OutputType` in schemas.py)."""

    NOTHING = "non_alias"
    VIEW_OF_INPUT = "alias_of_input"
    INPUT = "is_input"
    VIEW_OF_MADE = "alias_of_intermediate"
    VIEW_OF_MADE_SAVED = "alias_of_intermediate_save_as_output"
    """A view of a tensor that the graph creates and returns as a hidden output."""
    VIEW_OF_OUTPUT = "alias_of_intermediate_base_is_user_output"
    UNSAFE_VIEW = "unsafe_view_alias"
    FUNCTION_VIEW = "custom_function_view"
    OTHER = "other"
    """An unknown value, from a newer torch."""


class ChangedInput(Struct, frozen=True):
    """How a graph changes one of its inputs."""

    index: int
    data: bool
    """Whether the graph changes the input's values."""
    metadata: bool
    """Whether the graph changes the input's sizes or strides, as `x.t_()` does."""

    @property
    def is_changed(self) -> bool:
        """Whether the graph changes the input in any way."""
        return self.data or self.metadata


class Returned(Struct, frozen=True):
    """An output that the user's code gets; `base` is the number of the input or output of which it is a view."""

    index: int
    shares: Shares
    base: int | None


class Aliases(Struct, frozen=True):
    """Which inputs a graph mutates, and which memory its outputs share."""

    inputs: tuple[ChangedInput, ...] = ()
    outputs: tuple[Returned, ...] = ()


def aliases(text: str) -> Aliases | None:
    """Parse the text; return None if it is missing or has another form."""
    if not text.startswith("ViewAndMutationMeta("):
        return None
    inputs, outputs = _parts(text, "InputAliasInfo("), _parts(text, "OutputAliasInfo(")
    return Aliases(
        tuple(_input(index, part) for index, part in enumerate(inputs)),
        tuple(_output(index, part) for index, part in enumerate(outputs)),
    )


def _parts(text: str, name: str) -> list[str]:
    """Return the text of each object of a class; the last one ends where objects of another class may begin."""
    return [part.partition("output_info=")[0].partition("num_intermediate")[0] for part in text.split(name)[1:]]


def _input(index: int, text: str) -> ChangedInput:
    flags = {name: value == "True" for name, value in _FLAG.findall(text)}
    metadata = flags.get("mutates_metadata", False) or flags.get("mutates_storage_metadata", False)
    return ChangedInput(index, flags.get("mutates_data", False), metadata)


def _output(index: int, text: str) -> Returned:
    output, base = _OUTPUT_TYPE.search(text), _BASE.search(text)
    word = output[1] if output else ""
    shares = Shares(word) if word in tuple(Shares) else Shares.OTHER
    # A newer torch may have kinds that the enum lacks.
    return Returned(index, shares, int(base[1][:9]) if base and base[1] != "None" else None)


class StageRow(Struct, frozen=True):
    """The summary of one stage."""

    JSON: ClassVar[str] = "stage=staged.label nodes ops counts|counts same_as|null_if_empty"
    staged: Staged
    nodes: int
    ops: int
    counts: tuple[tuple[str, int], ...]
    """How often each operation occurs, the most frequent first."""
    same_as: str = ""
    """The label of an earlier stage with the same nodes; empty if there is none."""


class Changed(Struct, frozen=True):
    """An input that the graph mutates."""

    JSON: ClassVar[str] = "name data metadata"
    name: str
    role: str
    data: bool
    metadata: bool


class Result(Struct, frozen=True):
    """One value that the graph returns to the user's code."""

    JSON: ClassVar[str] = "name=text shares input=base|null_if_empty *node.value"
    text: str
    """The node's name in Dynamo's graph, or a constant."""
    node: FxNode | None
    shares: Shares | None
    """None if not known."""
    base: str = ""
    """The user's name for the input that it is or of which it is a view; empty if there is none."""


class Overview(Struct, frozen=True):
    """The whole summary."""

    JSON: ClassVar[str] = (
        "*each stages=rows symbols=each.graphs.symbols inputs mutated=changed outputs=results saved=kept "
        "recomputed=recomputed.nodes|names notes attention"
    )
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
    attention: tuple[AttentionGroup, ...]
    passes: tuple[PassRun, ...]


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
        notes=tuple(note for staged in each.stages for note in notes(staged)),
        attention=answers(session, each.id),
        passes=runs(session, each.id),
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
    # Without the same number of outputs, positions of AOTAutograd's list are not those of Dynamo's graph.
    shared = aliasing.outputs if aliasing and len(aliasing.outputs) == len(graph.outputs) else ()
    for at, output in enumerate(graph.outputs):
        shares, base = shared[at].shares if shared else None, ""
        if shared and shares in (Shares.INPUT, Shares.VIEW_OF_INPUT) and aliasing and shared[at].base is not None:
            base = _input_name(shared[at].base or 0, aliasing, forward, names)[0]
        yield Result(output.text, nodes.get(output.text), shares, base)


def notes(staged: Staged) -> Iterator[str]:
    """Report a graph that could not be parsed, and torch's log entries that contradict the text."""
    graph = staged.graph
    if graph is None:
        yield f"{staged.label}: ctrace cannot parse a graph in this text and shows it as it is"
        return
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
