"""Find the buffers that two nodes share, and the bytes that one fused kernel would not move."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations

from msgspec import Struct

from ctrace.inspector.facts.fusion_facts import Access, Buffer, BufferRole, Fusion, Node


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
    is_only = len(writers) == 1 and buffer.role is not BufferRole.INPUT
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
    return (0 if whole is None else min(max(one + other - whole, 0), most)), most


def _is_overwritten(one: _Use, other: _Use, writers: Sequence[_Use], whole: int | None) -> bool:
    """Whether a third node may overwrite the data between the write and the read."""
    between = (use for use in writers if one.node < use.node < other.node)
    return any(whole is None or one.access.written + use.access.written > whole for use in between)
