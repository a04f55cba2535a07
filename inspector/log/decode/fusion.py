"""Decode a graph part's fusion: rounds, nodes and buffers, which refer to names by number."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from ctrace.inspector.facts.events import core as ev
from ctrace.inspector.facts.fusion import (
    Access,
    Buffer,
    Candidate,
    Fusion,
    FusionRound,
    Node,
    NodeKind,
    Refusal,
    Role,
    Score,
)
from ctrace.inspector.facts.kernels import Stage
from ctrace.inspector.log.fields import Fields

_T = TypeVar("_T")


def fusion_done(compile_id: str, data: Fields) -> ev.FusionDone:
    """Decode the payload of `ctrace_fusion`; an older ctrace wrote names instead of numbers, and no nodes."""
    names, reasons = data.maybe_texts("names"), data.maybe_texts("reasons")
    ops, stacks = data.maybe_texts("ops"), data.maybe_texts("stacks")
    seen = data.maybe_objects("nodes")
    nodes = tuple(_node(each, _numbered(ops, each.integers("ops"))) for each in seen)
    fusion = Fusion(
        graph=compile_id,
        stage=Stage(data.text("stage")),
        before=data.integer("before"),
        after=data.integer("after"),
        rounds=tuple(_round(each, names, reasons) for each in data.objects("rounds")),
        refused=data.integer("refused"),
        nodes=nodes,
        result=_result(data, nodes),
        buffers=tuple(map(_buffer, data.maybe_objects("buffers"))),
        outputs=data.maybe_texts("outputs"),
    )
    traces = {node.name: _numbered(stacks, each.integers("stacks")) for node, each in zip(nodes, seen, strict=True)}
    return ev.FusionDone(compile_id, fusion, traces)


def _round(data: Fields, names: Sequence[str], reasons: Sequence[str]) -> FusionRound:
    if data.has("fused"):  # written by an older ctrace
        return FusionRound(data.integer("before"), data.integer("after"), data.pairs("fused"))
    return FusionRound(
        before=data.integer("before"),
        after=data.integer("after"),
        fused=tuple(_pair(row, names) for row in data.numbers("pairs")),
        reorder=data.flag("reorder"),
        tried=data.integer("tried"),
        candidates=tuple(_candidate(row, names) for row in data.numbers("candidates")),
        refused=tuple(_refusal(row, names, reasons) for row in data.numbers("refused")),
    )


def _pair(row: Sequence[int], names: Sequence[str]) -> tuple[str, str]:
    first, second = row
    return _at(names, first), _at(names, second)


def _candidate(row: Sequence[int], names: Sequence[str]) -> Candidate:
    score = row[2:]
    return Candidate(*_pair(row[:2], names), _score(*score) if score else None)


def _score(template: int, kind: int, shared: int, overlap: int, proximity: int) -> Score:
    return Score(template, kind, shared, overlap, proximity)


def _refusal(row: Sequence[int], names: Sequence[str], reasons: Sequence[str]) -> Refusal:
    first, second, reason = row
    return Refusal(_at(names, first), _at(names, second), _at(reasons, reason))


def _node(data: Fields, ops: tuple[str, ...]) -> Node:
    return Node(
        name=data.text("name"),
        kind=NodeKind(data.text("kind")),
        operations=data.texts("operations"),
        loops=data.text("loops"),
        ops=ops,
        accesses=tuple(map(_access, data.rows("accesses"))),
        flops=data.maybe_integer("flops"),
    )


def _access(row: Sequence[Any]) -> Access:
    buffer, *numbers = row
    if not isinstance(buffer, str) or any(type(number) is not int for number in numbers) or len(numbers) not in (2, 4):
        msg = "an access is not a name and two numbers, or four"
        raise TypeError(msg)
    return Access(buffer, *numbers)


def _result(data: Fields, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Return the nodes after fusion; a number refers to a node that fusion left unchanged."""
    ops = {operation: node.ops for node in nodes for operation in node.operations}

    def read(item: Any) -> Node:
        if type(item) is int:
            return _at(nodes, item)
        fields = Fields(item, "an item of result")
        return _node(fields, _joined(ops.get(name, ()) for name in fields.texts("operations")))

    return tuple(map(read, data.maybe_list("result")))


def _joined(parts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for part in parts for each in part))


def _buffer(data: Fields) -> Buffer:
    return Buffer(
        name=data.text("name"),
        role=Role(data.text("role")),
        dtype=data.text("dtype"),
        shape=data.texts("shape"),
        stride=data.texts("stride"),
        device=data.text("device"),
        bytes=data.maybe_integer("bytes"),
    )


def _numbered(table: Sequence[str], numbers: Iterable[int]) -> tuple[str, ...]:
    return tuple(_at(table, number) for number in numbers)


def _at(table: Sequence[_T], number: int) -> _T:
    if not 0 <= number < len(table):
        msg = f"there is no number {number} among {len(table)}"
        raise ValueError(msg)
    return table[number]
