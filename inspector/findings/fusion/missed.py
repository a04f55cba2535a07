"""Find missed fusions: pairs of kernels that share data, with the extra memory traffic that each causes."""

from collections import defaultdict
from collections.abc import Iterable

from msgspec import Struct

from ctrace.inspector.facts.fusion import Fusion, Node, NodeKind
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.fusion.shared import Shared, sharing
from ctrace.inspector.findings.fusion.why import Reason, Reasons


class Missed(Struct, frozen=True):
    """Two unfused nodes that share data; figures are for this pair alone."""

    first: Node
    """The node that runs first."""
    second: Node
    shared: tuple[Shared, ...]
    """The largest first."""
    reason: Reason

    @property
    def bytes(self) -> int:
        """The extra bytes that certainly move because the two are not one kernel."""
        return sum(each.bytes for each in self.shared)

    @property
    def perhaps(self) -> int:
        """The extra bytes that may move in addition."""
        return sum(each.perhaps for each in self.shared)

    @property
    def is_possible(self) -> bool:
        """Whether Inductor generates code for at least one of the two."""
        return not self.reason.both_called


class MissedKind(Struct, frozen=True):
    """Missed pairs with equal ops, lines, bytes and reason, as in the layers of a model."""

    example: Missed
    times: int


class NotFused(Struct, frozen=True):
    """All unfused pairs of one graph part."""

    missed: tuple[Missed, ...]
    """Pairs that share data, the most bytes first."""
    hidden: int
    """The number of pairs that share no data."""


def not_fused(fusion: Fusion) -> NotFused:
    """Find the pairs that are not fused; empty if the log lacks the nodes."""
    nodes = [node for node in fusion.result if node.kind is not NodeKind.NOTHING]
    reasons = Reasons(fusion)
    missed = [
        Missed(nodes[first], nodes[second], _largest_first(shared), reasons.of(nodes[first], nodes[second]))
        for (first, second), shared in sharing(fusion, nodes).items()
    ]
    missed.sort(key=lambda each: (-each.bytes, -each.perhaps))
    return NotFused(tuple(missed), len(nodes) * (len(nodes) - 1) // 2 - len(missed))


def alike(missed: Iterable[Missed]) -> tuple[MissedKind, ...]:
    """Group pairs with equal ops, lines, bytes and reason, in order of first appearance."""
    found: dict[tuple[object, ...], list[Missed]] = defaultdict(list)
    for each in missed:
        found[(_likeness(each.first), _likeness(each.second), each.bytes, each.perhaps, each.reason.key)].append(each)
    return tuple(MissedKind(each[0], len(each)) for each in found.values())


def top_missed(session: Session) -> tuple[Fusion, Missed] | None:
    """Find the most expensive missed fusion of which Inductor generates at least one kernel."""
    pairs = ((fusion, each) for fusion in session.fusions for each in not_fused(fusion).missed)
    sure = (found for found in pairs if found[1].is_possible and found[1].bytes)
    return max(sure, key=lambda found: found[1].bytes, default=None)


def _likeness(node: Node) -> tuple[object, ...]:
    return node.kind, node.ops, node.lines, node.loops


def _largest_first(shared: Iterable[Shared]) -> tuple[Shared, ...]:
    return tuple(sorted(shared, key=lambda each: (-each.bytes, -each.perhaps)))
