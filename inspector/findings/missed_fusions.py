"""Find missed fusions (`not_fused`): pairs of kernels that share data, with the extra memory traffic that each causes.

`sharing` finds the buffers that two nodes share, and the bytes that one fused kernel would not move. Why two nodes were
not fused is torch's logged reason, or else what is certain without one (`Reasons`).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.facts.fusion_facts import Access, Buffer, BufferRole, Fusion, Node, NodeKind
from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.target_gpu import Basis
from ctrace.inspector.findings.fusion_totals import CALLED
from ctrace.inspector.knowledge.advice import AdviceEntry, advice_on_refusal, entries


class Shared(Struct, frozen=True):
    """The extra memory traffic for one buffer, because a pair is not fused."""

    buffer: str
    read: int
    """Bytes that the first node writes and the second reads, or that both read."""
    written: int = 0
    """Bytes that the first node writes for the second node only; a fused kernel would not need the buffer."""
    produced: bool = False
    """Whether the first node writes the buffer and the second reads it; otherwise both read it."""
    perhaps: int = 0
    """Bytes that `read` may lack: each node uses a part of the buffer, and the parts may overlap."""

    @property
    def bytes(self) -> int:
        """The extra bytes that certainly move."""
        return self.read + self.written


class _Use(Struct, frozen=True):
    """One node's use of a buffer."""

    node: int
    access: Access


def sharing(fusion: Fusion, nodes: Sequence[Node]) -> Mapping[tuple[int, int], list[Shared]]:
    """Return the parts of buffers that pairs of nodes share or may share, keyed by the numbers of the two nodes."""
    buffers = {buffer.name: buffer for buffer in fusion.buffers}
    outputs = {*fusion.outputs}
    uses: dict[str, list[_Use]] = defaultdict(list)
    for number, node in enumerate(nodes):
        for access in node.accesses:
            uses[access.buffer].append(_Use(number, access))
    found: dict[tuple[int, int], list[Shared]] = defaultdict(list)
    for name, using in uses.items():
        if name in buffers:
            for first, second, shared in _of_buffer(using, buffers[name], is_output=name in outputs):
                found[first, second].append(shared)
    return found


def _of_buffer(using: Sequence[_Use], buffer: Buffer, *, is_output: bool) -> list[tuple[int, int, Shared]]:
    """Compare the users of one buffer pairwise, in execution order."""
    writers, whole = [use for use in using if use.access.written], buffer.bytes
    # An input has data that no node wrote, so a single writer need not write all that is read.
    is_only = len(writers) == 1 and buffer.role is not BufferRole.INPUT
    # With a third user, the buffer would have to be written even if these two were one kernel.
    is_inner = buffer.role is BufferRole.INNER and not is_output and len(using) == 2
    found = []
    for one, other in combinations(using, 2):
        if not one.access.written:
            shared = _both_read(one.access, other.access, whole)
        elif _is_overwritten(one, other, writers, whole):
            continue
        else:
            shared = _passed_on(one.access, other.access, whole, is_only=is_only, is_private=is_inner)
        if shared.bytes or shared.perhaps:
            found.append((one.node, other.node, shared))
    return found


def _both_read(one: Access, other: Access, whole: int | None) -> Shared:
    is_same = one.part_read is not None and one.part_read == other.part_read
    sure, most = _overlap(one.read, other.read, whole, is_same=is_same)
    return Shared(one.buffer, sure, perhaps=most - sure)


def _passed_on(one: Access, other: Access, whole: int | None, *, is_only: bool, is_private: bool) -> Shared:
    """Compare one node's write with another node's read; if only one node writes, it writes all that is read."""
    is_same = is_only or (one.part_written is not None and one.part_written == other.part_read)
    sure, most = _overlap(one.written, other.read, whole, is_same=is_same)
    return Shared(one.buffer, sure, one.written if is_private and most else 0, produced=True, perhaps=most - sure)


def _overlap(one: int, other: int, whole: int | None, *, is_same: bool) -> tuple[int, int]:
    """Return the least and the most bytes that two parts of a buffer have in common."""
    most = min(one, other)
    if is_same:
        return most, most
    # Two parts of a buffer overlap at least by what they exceed it together.
    return (0 if whole is None else min(max(one + other - whole, 0), most)), most


def _is_overwritten(one: _Use, other: _Use, writers: Sequence[_Use], whole: int | None) -> bool:
    """Whether a third node may overwrite the data between the write and the read."""
    between = (use for use in writers if one.node < use.node < other.node)
    return any(whole is None or one.access.written + use.access.written > whole for use in between)


_WINDOW = 64
"""For each buffer, torch pairs a node with at most this many later nodes that use the buffer (2.11 to 2.13,
_inductor/config.py: max_fusion_buffer_group_pairwise_attempts).
"""
_NEVER_ASKED = (NodeKind.EXTERNAL, NodeKind.NOTHING)
_PRODUCTS = frozenset(("mm", "addmm", "bmm", "baddbmm", "_scaled_mm", "_int_mm"))


class NotFusedReason(Struct, frozen=True):
    """Why a pair was not fused."""

    key: str
    """Key of the entry in `advice/fusion.yaml`."""
    title: str
    """A few words."""
    sentence: str
    fix: str
    torch: str = ""
    """Torch's logged reason; empty if it logged none."""
    both_called: bool = False
    """Whether Inductor generates code for neither of the two nodes."""


class Reasons:
    """Explain why pairs of nodes of one graph part were not fused."""

    def __init__(self, fusion: Fusion) -> None:
        self._refused = {(one.first, one.second): one.reason for each in fusion.rounds for one in each.refused}
        # A pair of an earlier round may have been fused since, or its nodes renamed.
        last = fusion.rounds[-1:] if fusion.rounds else ()
        self._candidates = {(one.first, one.second) for each in last for one in each.candidates}
        self._devices = {buffer.name: buffer.device for buffer in fusion.buffers}
        # Torch leaves these out before it forms pairs (`unfusable_node`, _inductor/scheduler.py, 2.13), so they take no
        # place in its window.
        self._places = _positions(node for node in fusion.result if node.kind not in _NEVER_ASKED)

    def of(self, first: Node, second: Node) -> NotFusedReason:
        """Return torch's last logged reason for a pair, in either order; without one, return what is certain."""
        torch = self._refused.get((first.name, second.name)) or self._refused.get((second.name, first.name), "")
        key = self._called(first, second) or (torch and _key(torch)) or self._underived(first, second)
        entry = entries("fusion")[key]
        fix = entry.fix or _setting(entry)
        both = first.kind in CALLED and second.kind in CALLED
        return NotFusedReason(key, entry.title, _sentence(entry, first, second), fix, torch, both)

    def _called(self, first: Node, second: Node) -> str:
        """Return the reason if it follows from the kinds of the nodes alone: torch never considers library calls."""
        calls = [node for node in (first, second) if node.kind is NodeKind.EXTERNAL]
        products = sum(_is_product(node) for node in calls)
        # Two matmuls read the same input so often, as query, key and value, that they have advice of their own.
        if len(calls) == 2:
            if products == 2:
                return "library_products"
            return "library_both"
        if products:
            takes = {first.kind, second.kind} == {NodeKind.EXTERNAL, NodeKind.POINTWISE} and self._is_on_gpu(calls[0])
            if takes:
                return "library_product_gpu"
            return "library_product"
        return "library" if calls else ""

    def _underived(self, first: Node, second: Node) -> str:
        if {(first.name, second.name), (second.name, first.name)} & self._candidates:
            return "dropped"
        if NodeKind.USER in (first.kind, second.kind):
            return "own_kernel"
        if self._is_far(first, second):
            return "far"
        if first.loops and second.loops and first.loops != second.loops:
            return "loops"
        return "unknown"

    def _is_on_gpu(self, node: Node) -> bool:
        return any(self._devices.get(access.buffer, "").startswith("cuda") for access in node.accesses)

    def _is_far(self, first: Node, second: Node) -> bool:
        ones, others = self._places[first.name], self._places[second.name]
        distances = [abs(ones[buffer] - others[buffer]) for buffer in ones.keys() & others.keys()]
        return bool(distances) and min(distances) > _WINDOW


def _positions(nodes: Iterable[Node]) -> dict[str, dict[str, int]]:
    """Return each node's position among the users of each buffer."""
    places: dict[str, dict[str, int]] = defaultdict(dict)
    numbers: dict[str, int] = defaultdict(int)
    for node in nodes:
        for access in node.accesses:
            places[node.name][access.buffer] = numbers[access.buffer]
            numbers[access.buffer] += 1
    return places


@lru_cache(maxsize=4096)
def _key(torch: str) -> str:
    return advice_on_refusal(torch)


def _is_product(node: Node) -> bool:
    return any(op.removeprefix("aten.").partition(".")[0] in _PRODUCTS for op in node.ops)


def _setting(entry: AdviceEntry) -> str:
    if entry.switch:
        return f"`{entry.switch}` (risk: {entry.risk[:1].lower()}{entry.risk[1:].removesuffix('.')})"
    return ""


def _sentence(entry: AdviceEntry, first: Node, second: Node) -> str:
    if entry.shows != "loops" or not (first.loops and second.loops):
        return entry.why
    return f"{entry.why.removesuffix('.')}: `{first.loops}` and `{second.loops}`."


_PAIR = (
    "basis=BASIS bases=BASES bytes bytes_perhaps=perhaps nodes=_names ops=_ops lines=_lines|places_of_both "
    "reason=reason.key sentence=reason.sentence fix=reason.fix torch=reason.torch|null_if_empty "
    "library_calls_only=reason.both_called"
)


class Missed(Struct, frozen=True):
    """Two unfused nodes that share data; figures are for this pair alone."""

    JSON: ClassVar[str] = f"{_PAIR} shared"
    BASIS: ClassVar[Basis] = Basis.EMITTED
    BASES: ClassVar[dict[str, Basis]] = dict.fromkeys(("bytes", "bytes_perhaps"), Basis.COMPUTED)
    first: Node
    """The node that runs first."""
    second: Node
    shared: tuple[Shared, ...]  # the largest first
    reason: NotFusedReason

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

    @property
    def _names(self) -> tuple[str, str]:
        return self.first.name, self.second.name

    @property
    def _ops(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self.first.ops, self.second.ops

    @property
    def _lines(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self.first.lines, self.second.lines


class TopMissed(Missed, frozen=True, kw_only=True):
    """The most expensive missed fusion of a run."""

    JSON: ClassVar[str] = f"graph stage {_PAIR}"
    graph: str
    stage: Stage


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
    # By what is certain: bytes that may overlap are a bound, and would push unlikely pairs to the front.
    missed.sort(key=lambda each: (-each.bytes, -each.perhaps))
    return NotFused(tuple(missed), len(nodes) * (len(nodes) - 1) // 2 - len(missed))


def alike(missed: Iterable[Missed]) -> tuple[MissedKind, ...]:
    """Group pairs with equal ops, lines, bytes and reason, in order of first appearance."""
    found: dict[tuple[object, ...], list[Missed]] = defaultdict(list)
    for each in missed:
        # Names differ in each layer of a model, so they are no part of the key.
        found[(_likeness(each.first), _likeness(each.second), each.bytes, each.perhaps, each.reason.key)].append(each)
    return tuple(MissedKind(each[0], len(each)) for each in found.values())


def top_missed(session: Session) -> TopMissed | None:
    """Find the most expensive missed fusion of which Inductor generates at least one kernel."""
    pairs = (
        TopMissed(each.first, each.second, each.shared, each.reason, graph=fusion.graph, stage=fusion.stage)
        for fusion in session.fusions
        for each in not_fused(fusion).missed
        # A pair of two library calls is nothing that a user could have fused.
        if each.is_possible and each.bytes
    )
    return max(pairs, key=lambda found: found.bytes, default=None)


def _likeness(node: Node) -> tuple[object, ...]:
    return node.kind, node.ops, node.lines, node.loops


def _largest_first(shared: Iterable[Shared]) -> tuple[Shared, ...]:
    return tuple(sorted(shared, key=lambda each: (-each.bytes, -each.perhaps)))
