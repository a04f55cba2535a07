"""Make what a Session says of fusion, scenarios and dangers from their records.

In the record of a graph part's fusion, numbers stand for names (`fusion_of`); those of scenarios and dangers are flat.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from msgspec import UNSET

from ctrace.inspector.facts.findings import Danger
from ctrace.inspector.facts.fusion_facts import (
    FusedNode,
    Fusion,
    FusionCandidate,
    FusionDone,
    FusionRecord,
    FusionRound,
    Node,
    RecordedRound,
    Refusal,
    Score,
)
from ctrace.inspector.facts.run_events import PartsSeen
from ctrace.inspector.facts.scenario_facts import Comparison, DangerFound, ScenarioDone
from ctrace.inspector.facts.session import Scenario
from ctrace.inspector.facts.trial import Part

_T = TypeVar("_T")


def fusion_of(record: FusionRecord) -> FusionDone:
    """Return a graph part's fusion.

    Raises:
        ValueError, TypeError: a number refers to nothing, or a row has another length.
    """
    nodes = tuple(_node(each, _numbered(record.ops, each.ops)) for each in record.nodes)
    fusion = Fusion(
        graph=record.graph,
        stage=record.stage,
        before=record.before,
        after=record.after,
        rounds=tuple(_round(each, record.names, record.reasons) for each in record.rounds),
        refused=record.refused,
        nodes=nodes,
        result=_result(record, nodes),
        buffers=record.buffers,
        outputs=record.outputs,
    )
    traces = {each.name: _numbered(record.stacks, each.stacks) for each in record.nodes}
    return FusionDone(record.graph, fusion, traces)


def _round(recorded: RecordedRound, names: Sequence[str], reasons: Sequence[str]) -> FusionRound:
    if recorded.fused is not UNSET:  # written by an older ctrace
        return FusionRound(recorded.before, recorded.after, tuple(recorded.fused))
    return FusionRound(
        before=recorded.before,
        after=recorded.after,
        fused=tuple(_pair(row, names) for row in recorded.pairs),
        reorder=recorded.reorder,
        tried=recorded.tried,
        candidates=tuple(_candidate(row, names) for row in recorded.candidates),
        refused=tuple(_refusal(row, names, reasons) for row in recorded.refused),
    )


def _pair(row: Sequence[int], names: Sequence[str]) -> tuple[str, str]:
    first, second = row
    return _at(names, first), _at(names, second)


def _candidate(row: Sequence[int], names: Sequence[str]) -> FusionCandidate:
    score = row[2:]
    return FusionCandidate(*_pair(row[:2], names), _score(*score) if score else None)


def _score(template: int, kind: int, shared: int, overlap: int, proximity: int) -> Score:
    return Score(template, kind, shared, overlap, proximity)


def _refusal(row: Sequence[int], names: Sequence[str], reasons: Sequence[str]) -> Refusal:
    first, second, reason = row
    return Refusal(_at(names, first), _at(names, second), _at(reasons, reason))


def _node(recorded: FusedNode, ops: tuple[str, ...]) -> Node:
    return Node(
        name=recorded.name,
        kind=recorded.kind,
        operations=recorded.operations,
        loops=recorded.loops,
        ops=ops,
        accesses=recorded.accesses,
        flops=recorded.flops,
    )


def _result(record: FusionRecord, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Return the nodes after fusion; one that fusion made has the ops of all its operations."""
    ops = {operation: node.ops for node in nodes for operation in node.operations}
    found = []
    for each in record.result:
        if isinstance(each, int):
            found.append(_at(nodes, each))
        else:
            found.append(_node(each, _joined(ops.get(name, ()) for name in each.operations)))
    return tuple(found)


def _joined(parts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for part in parts for each in part))


def _numbered(table: Sequence[str], numbers: Iterable[int]) -> tuple[str, ...]:
    return tuple(_at(table, number) for number in numbers)


def _at(table: Sequence[_T], number: int) -> _T:
    # A negative number of a damaged log would silently count from the end.
    if not 0 <= number < len(table):
        msg = f"there is no number {number} among {len(table)}"
        raise ValueError(msg)
    return table[number]


def scenario_of(done: ScenarioDone) -> Scenario:
    """Return a scenario that was called."""
    return Scenario(
        name=done.name,
        calls=done.calls,
        kind=done.kind,
        outcome=done.outcome,
        message=done.message,
        compared=done.compared,
        not_compared=done.not_compared,
        call_seconds=done.call_seconds,
        training=done.training,
        unused_grad=done.unused_grad,
        comparison=_comparison(done),
        eager_result=done.eager_result,
    )


def parts_of(seen: PartsSeen) -> tuple[Part, ...]:
    """Return the modules of the target; several share the code of one `forward`."""
    found = []
    for each in seen.parts:
        code = seen.codes[each.code]
        found.append(Part(each.path, each.kind, code.file, code.first, code.last, each.parameters))
    return tuple(found)


def danger_of(found: DangerFound) -> Danger:
    """Return results that differ from eager ones."""
    return Danger(
        scenario=found.scenario,
        call=found.call,
        kind=found.kind,
        subject=found.subject,
        difference=found.difference or "",
        was=found.was,
        now=found.now,
        file=found.file,
        line=found.line,
        proven=found.proven,
        comparison=_comparison(found),
    )


def _comparison(record: ScenarioDone | DangerFound) -> Comparison | None:
    """Return how results were compared; None: the record is of an older ctrace."""
    if record.rule is None:
        return None
    return Comparison(record.rule, record.eager_error, record.compiled_error, record.no_reference)
