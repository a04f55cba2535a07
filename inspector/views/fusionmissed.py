"""Pairs of kernels that share data and stayed two, by the bytes that are moved again because of it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

from ctrace.inspector.fusion import Access, Fusion, Node, NodeKind, Role
from ctrace.inspector.model import Session
from ctrace.inspector.views.fusionwhy import Reason, Reasons


@dataclass(frozen=True, slots=True)
class Shared:
    """What a pair moves again of one buffer."""

    buffer: str
    read: int
    """Bytes: what the second reads of what the first wrote; or where both only read it, the smaller of both reads."""
    written: int = 0
    """Bytes of the first's write, where only the second needs the buffer: fused, it would not exist."""
    produced: bool = False
    """Whether the first writes it for the second; otherwise both read it."""

    @property
    def bytes(self) -> int:
        """Bytes moved again."""
        return self.read + self.written


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
        """Bytes moved again because the two are not one kernel."""
        return sum(each.bytes for each in self.shared)

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
        for (first, second), shared in _sharing(fusion, nodes).items()
    ]
    missed.sort(key=lambda each: -each.bytes)
    return NotFused(tuple(missed), len(nodes) * (len(nodes) - 1) // 2 - len(missed))


def alike(missed: Iterable[Missed]) -> tuple[MissedKind, ...]:
    """Put together what looks the same to a user, in the order of the first of each kind."""
    found: dict[tuple[object, ...], list[Missed]] = defaultdict(list)
    for each in missed:
        found[(_likeness(each.first), _likeness(each.second), each.bytes, each.reason.key)].append(each)
    return tuple(MissedKind(each[0], len(each)) for each in found.values())


def top_missed(session: Session) -> tuple[Fusion, Missed] | None:
    """Find the most expensive missed fusion of a run of which Inductor writes at least one side."""
    first = ((fusion, each) for fusion in session.fusions for each in not_fused(fusion).missed if each.is_possible)
    return max(first, key=lambda found: found[1].bytes, default=None)


def _likeness(node: Node) -> tuple[object, ...]:
    return node.kind, node.ops, node.lines, node.loops


def _largest_first(shared: Iterable[Shared]) -> tuple[Shared, ...]:
    return tuple(sorted(shared, key=lambda each: -each.bytes))


def _sharing(fusion: Fusion, nodes: list[Node]) -> Mapping[tuple[int, int], list[Shared]]:
    """Give, for the numbers of two nodes, what they share of each buffer, where it is anything."""
    inner = {buffer.name for buffer in fusion.buffers if buffer.role is Role.INNER} - {*fusion.outputs}
    users: dict[str, list[tuple[int, Access]]] = defaultdict(list)
    for number, node in enumerate(nodes):
        for access in node.accesses:
            users[access.buffer].append((number, access))
    found: dict[tuple[int, int], list[Shared]] = defaultdict(list)
    for name, using in users.items():
        is_private = name in inner and len(using) == 2
        for (first, before), (second, after) in combinations(using, 2):
            shared = _shared(before, after, is_private=is_private)
            if shared.bytes:
                found[first, second].append(shared)
    return found


def _shared(before: Access, after: Access, *, is_private: bool) -> Shared:
    if before.written:
        spared = before.written if is_private and after.read else 0
        return Shared(before.buffer, after.read, spared, produced=True)
    return Shared(before.buffer, min(before.read, after.read))
