"""How many bytes a graph part moves: as fused, had nothing been fused, and at the least."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ctrace.inspector.model.fusion import Access, Fusion, Node, NodeKind, Role
from ctrace.inspector.model.session import Session

CALLED = (NodeKind.EXTERNAL, NodeKind.USER)
"""Kinds of nodes whose code Inductor does not write."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Bytes read and written by the kernels of a graph part, or of several."""

    unfused: int
    """Had every node been a kernel of its own."""
    fused: int
    least: int
    """Each input read once, as far as a node reads it, and each output written once."""
    least_with_calls: int
    """The same, with the calls of libraries as they are: each reads and writes what it does."""
    calls: int
    """How many of those there are."""


def totals(fusion: Fusion) -> Totals | None:
    """Add up the bytes of a graph part; None where the log does not hold its nodes."""
    if not fusion.nodes or not fusion.result:
        return None
    return Totals(
        unfused=_moved(fusion.nodes),
        fused=_moved(fusion.result),
        least=_least(fusion, ()),
        least_with_calls=_least(fusion, CALLED),
        calls=sum(node.kind in CALLED for node in fusion.result),
    )


def session_totals(session: Session) -> Totals | None:
    """Add up the bytes of all graph parts; None where there is none, or not all are known."""
    found = [totals(fusion) for fusion in session.fusions]
    known = [each for each in found if each is not None]
    if not known or len(known) < len(found):
        return None
    return Totals(
        sum(each.unfused for each in known),
        sum(each.fused for each in known),
        sum(each.least for each in known),
        sum(each.least_with_calls for each in known),
        sum(each.calls for each in known),
    )


def _moved(nodes: Iterable[Node]) -> int:
    return sum(node.read + node.written for node in nodes)


def _least(fusion: Fusion, kept: tuple[NodeKind, ...]) -> int:
    """Add up what must be moved by nodes of the kinds `kept`, and around them by all others as if they were one."""
    calls = [node for node in fusion.result if node.kind in kept]
    others = [node for node in (*fusion.nodes, *fusion.result) if node.kind not in kept]
    made = {access.buffer for node in calls for access in node.accesses if access.written}
    needed = {access.buffer for node in calls for access in node.accesses if access.read}
    roles = {buffer.name: buffer.role for buffer in fusion.buffers}
    given = {name for name, role in roles.items() if role is Role.INPUT}
    wanted = given | {name for name, role in roles.items() if role is Role.OUTPUT} | {*fusion.outputs} | needed
    read = _most(others, lambda access: access.read)
    written = _most(others, lambda access: access.written) | _put_together(fusion, kept)
    return (
        _moved(calls)
        + sum(number for name, number in read.items() if name in given | made)
        + sum(number for name, number in written.items() if name in wanted)
    )


def _most(nodes: Iterable[Node], bytes_of: Callable[[Access], int]) -> dict[str, int]:
    """Give the most that one node moves of each buffer."""
    most: dict[str, int] = defaultdict(int)
    for node in nodes:
        for access in node.accesses:
            most[access.buffer] = max(most[access.buffer], bytes_of(access))
    return most


def _put_together(fusion: Fusion, kept: tuple[NodeKind, ...]) -> dict[str, int]:
    """Give the bytes of buffers that several nodes write a part of, such as a concatenation, each byte once."""
    sizes = {buffer.name: buffer.bytes for buffer in fusion.buffers if buffer.role is not Role.INPUT}
    written: dict[str, list[int]] = defaultdict(list)
    for node in fusion.nodes:
        for access in node.accesses if node.kind not in kept else ():
            if access.written:
                written[access.buffer].append(access.written)
    return {
        name: min(sum(parts), size)
        for name, parts in written.items()
        if len(parts) > 1 and (size := sizes.get(name)) is not None
    }
