"""Pairs of kernels that share data and stayed two, by the bytes that are moved again because of it."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from ctrace.inspector.fusion.shared import Shared, sharing
from ctrace.inspector.fusion.why import Reason, Reasons
from ctrace.inspector.model.fusion import Fusion, Node, NodeKind
from ctrace.inspector.model.session import Session


@dataclass(frozen=True, slots=True)
class Missed:
    """Two nodes of the result that share data; each figure is that of this pair alone."""

    first: Node
    """The one that runs first."""
    second: Node
    shared: tuple[Shared, ...]
    """The largest first."""
    reason: Reason

    @property
    def bytes(self) -> int:
        """Bytes moved again because the two are not one kernel, as far as it is certain."""
        return sum(each.bytes for each in self.shared)

    @property
    def perhaps(self) -> int:
        """Bytes that may come to that."""
        return sum(each.perhaps for each in self.shared)

    @property
    def is_possible(self) -> bool:
        """Whether Inductor writes the code of at least one of the two."""
        return not self.reason.both_called


@dataclass(frozen=True, slots=True)
class MissedKind:
    """Missed pairs that are alike: the same ops, lines, bytes and reason, as in the layers of a model."""

    example: Missed
    times: int


@dataclass(frozen=True, slots=True)
class NotFused:
    """Every pair of the result of one graph part."""

    missed: tuple[Missed, ...]
    """Those that share data, the most bytes first."""
    hidden: int
    """How many share none."""


def not_fused(fusion: Fusion) -> NotFused:
    """Find the pairs that share data; none where the log does not hold the nodes."""
    nodes = [node for node in fusion.result if node.kind is not NodeKind.NOTHING]
    reasons = Reasons(fusion)
    missed = [
        Missed(nodes[first], nodes[second], _largest_first(shared), reasons.of(nodes[first], nodes[second]))
        for (first, second), shared in sharing(fusion, nodes).items()
    ]
    missed.sort(key=lambda each: (-each.bytes, -each.perhaps))
    return NotFused(tuple(missed), len(nodes) * (len(nodes) - 1) // 2 - len(missed))


def alike(missed: Iterable[Missed]) -> tuple[MissedKind, ...]:
    """Put together what looks the same to a user, in the order of the first of each kind."""
    found: dict[tuple[object, ...], list[Missed]] = defaultdict(list)
    for each in missed:
        found[(_likeness(each.first), _likeness(each.second), each.bytes, each.perhaps, each.reason.key)].append(each)
    return tuple(MissedKind(each[0], len(each)) for each in found.values())


def top_missed(session: Session) -> tuple[Fusion, Missed] | None:
    """Find the most expensive missed fusion of a run of which Inductor writes at least one side."""
    pairs = ((fusion, each) for fusion in session.fusions for each in not_fused(fusion).missed)
    sure = (found for found in pairs if found[1].is_possible and found[1].bytes)
    return max(sure, key=lambda found: found[1].bytes, default=None)


def _likeness(node: Node) -> tuple[object, ...]:
    return node.kind, node.ops, node.lines, node.loops


def _largest_first(shared: Iterable[Shared]) -> tuple[Shared, ...]:
    return tuple(sorted(shared, key=lambda each: (-each.bytes, -each.perhaps)))
