"""Describe the scheduler's nodes of one graph part, before and after fusion."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.fusion.accesses import Touch, accesses, touches
from ctrace.inspector.capture.fusion.buffers import Buffers
from ctrace.inspector.capture.fusion.flops import flops_of, total
from ctrace.inspector.capture.fusion.loop_body import Computed, Numbers
from ctrace.inspector.capture.kernels.record import ops_of, origins_of
from ctrace.inspector.facts.events.fusion import FusedNode, FusionRecord, ScheduledNode
from ctrace.inspector.facts.fusion import NodeKind


class _Facts(Struct, frozen=True):
    """Facts of an unfused node that fusion preserves, though it may rewrite the loops."""

    touches: list[Touch]
    flops: Computed | int | None


class GraphPart:
    """Describes nodes; first call `see` with the nodes before fusion."""

    def __init__(self, scheduler: Any, recorder: Recorder) -> None:
        self._buffers = Buffers(scheduler)
        self._recorder = recorder
        self._facts: dict[str, _Facts] = {}
        self._numbers: Numbers = {}
        self._ops: dict[str, int] = {}
        self._stacks: dict[str, int] = {}
        self._nodes: tuple[ScheduledNode, ...] = ()

    def see(self, nodes: Sequence[Any]) -> None:
        """Store the nodes before fusion."""
        self._nodes = tuple(self._scheduled(node) for node in nodes)

    def added_to(self, record: FusionRecord, result: Sequence[Any]) -> FusionRecord:
        """Return a record with all nodes and their buffers; a node that fusion did not change is its number."""
        numbers = {node.name: number for number, node in enumerate(self._nodes)}
        after = tuple(numbers[name] if (name := node.get_name()) in numbers else self._fused(node) for node in result)
        outputs = self._buffers.outputs()
        used = [access.buffer for node in self._nodes for access in node.accesses]
        return replace(
            record,
            nodes=self._nodes,
            result=after,
            ops=tuple(self._ops),
            stacks=tuple(self._stacks),
            buffers=self._buffers.table(dict.fromkeys([*self._buffers.inputs(), *used, *outputs])),
            outputs=tuple(outputs),
        )

    def _fused(self, node: Any) -> FusedNode:
        members = node.get_nodes()
        facts = [self._facts_of(member) for member in members]
        touched = [touch for each in facts for touch in each.touches]
        return FusedNode(
            name=node.get_name(),
            kind=_kind(node),
            operations=tuple(member.get_name() for member in members),
            loops=_loops(node),
            accesses=accesses(members, touched, self._buffers),
            flops=total([each.flops for each in facts]),
        )

    def _facts_of(self, member: Any) -> _Facts:
        name = member.get_name()
        if name not in self._facts:
            touched: list[Touch] = []
            flops: Computed | int | None = None
            with self._recorder.watching(f"memory accesses of a {type(member).__name__}"):
                touched = touches(member, self._buffers)
                flops = None if touched else 0
            with self._recorder.watching(f"the FLOPs of a {type(member).__name__}"):
                flops = flops_of(member, self._numbers) if touched else flops
            self._facts[name] = _Facts(touched, flops)
        return self._facts[name]

    def _scheduled(self, node: Any) -> ScheduledNode:
        fused = self._fused(node)
        members = [member.node for member in node.get_nodes() if member.node is not None]
        origins = [
            origin for member in members for origin in origins_of(member, exact=node.is_extern() and len(members) == 1)
        ]
        stacks = [stack for member in members for stack in member.get_stack_traces()]
        return ScheduledNode(
            **asdict(fused), ops=_interned(ops_of(origins), self._ops), stacks=_interned(stacks, self._stacks)
        )


def _interned(texts: Sequence[str], table: dict[str, int]) -> tuple[int, ...]:
    return tuple(table.setdefault(text, len(table)) for text in dict.fromkeys(texts))


def _loops(node: Any) -> str:
    """Format the loop sizes in a node's group (2.13, scheduler.py: `(device, group_fn(sizes))`).

    A group for the CPU lists all sizes; a group for another device has only their products.
    """
    group = getattr(node, "group", None)
    parts = group[1] if group else ()
    texts = [", ".join(map(str, part)) if isinstance(part, list | tuple) else str(part) for part in parts]
    outer, inner = texts if len(texts) == 2 else (", ".join(texts), "")
    return f"{outer or 1} | {inner}" if inner not in ("", "1") else outer


def _kind(node: Any) -> NodeKind:
    from torch._inductor import ir, scheduler

    members = node.get_nodes()
    if isinstance(node, scheduler.ForeachKernelSchedulerNode):
        return NodeKind.FOREACH
    if all(
        isinstance(each, scheduler.NopKernelSchedulerNode) or isinstance(each.node, ir.MultiOutput) for each in members
    ):
        return NodeKind.NOTHING
    if any(isinstance(each.node, ir.UserDefinedTritonKernel) for each in members):
        return NodeKind.USER
    if node.is_template():
        return NodeKind.TEMPLATE
    if node.is_extern():
        return NodeKind.EXTERNAL
    return next((name for name, holds in _generated_kinds() if any(map(holds, members))), NodeKind.OTHER)


def _generated_kinds() -> list[tuple[NodeKind, Callable[[Any], bool]]]:
    from torch._inductor import ir, scheduler

    def computes(kind: type) -> Callable[[Any], bool]:
        return lambda member: isinstance(getattr(member.node, "data", None), kind)

    return [
        (NodeKind.SORT, computes(ir.Sort)),
        (NodeKind.SCAN, computes(ir.Scan)),
        (NodeKind.REDUCTION, lambda member: bool(member.is_reduction())),
        (NodeKind.POINTWISE, lambda member: isinstance(member, scheduler.SchedulerNode)),
    ]
