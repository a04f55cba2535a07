"""Count the bytes that a graph part moves with fusion, the bytes without fusion, and the lower bound."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.facts.fusion_facts import Access, BufferRole, Fusion, Node, NodeKind
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.target_gpu import Basis

CALLED = (NodeKind.EXTERNAL, NodeKind.USER)
"""Kinds of nodes whose code Inductor does not generate."""


class Totals(Struct, frozen=True):
    """Bytes read and written by the kernels of one or several graph parts."""

    JSON: ClassVar[str] = "basis=BASIS unfused fused least least_with_calls calls"
    unfused: int
    """The bytes if each node were one kernel."""
    fused: int
    least: int
    """The lower bound: each used part of an input is read once, and each output is written once."""
    least_with_calls: int
    """The lower bound if library calls stay separate."""
    calls: int
    """The number of library calls and user kernels."""
    BASIS: ClassVar[Basis] = Basis.COMPUTED


def totals(fusion: Fusion) -> Totals | None:
    """Return the bytes that a graph part moves, or None if the log lacks its nodes."""
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
    """Return the bytes that all graph parts move; None if there are no parts, or if one part's bytes are not known."""
    found = [totals(fusion) for fusion in session.fusions]
    known = [each for each in found if each is not None]
    # A sum without one of the parts would look like little traffic.
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
    """Return the bytes that must move if nodes of the kinds `kept` stay separate and all other nodes fuse."""
    calls = [node for node in fusion.result if node.kind in kept]
    others = [node for node in (*fusion.nodes, *fusion.result) if node.kind not in kept]
    made_by_calls = {access.buffer for node in calls for access in node.accesses if access.written}
    read_by_calls = {access.buffer for node in calls for access in node.accesses if access.read}
    roles = {buffer.name: buffer.role for buffer in fusion.buffers}
    inputs = {name for name, role in roles.items() if role is BufferRole.INPUT}
    must_write = (
        inputs | {name for name, role in roles.items() if role is BufferRole.OUTPUT} | {*fusion.outputs} | read_by_calls
    )
    read = _most(others, lambda access: access.read)
    # A concatenation is written by several nodes, of which the largest alone would be too little.
    written = _most(others, lambda access: access.written) | _written_in_parts(fusion, kept)
    return (
        _moved(calls)
        + sum(number for name, number in read.items() if name in inputs | made_by_calls)
        + sum(number for name, number in written.items() if name in must_write)
    )


def _most(nodes: Iterable[Node], bytes_of: Callable[[Access], int]) -> dict[str, int]:
    """Return for each buffer the most bytes that one node moves."""
    most: dict[str, int] = defaultdict(int)
    for node in nodes:
        for access in node.accesses:
            most[access.buffer] = max(most[access.buffer], bytes_of(access))
    return most


def _written_in_parts(fusion: Fusion, kept: tuple[NodeKind, ...]) -> dict[str, int]:
    """Return the bytes of each buffer that several nodes write in parts, such as a concatenation, each byte once."""
    sizes = {buffer.name: buffer.bytes for buffer in fusion.buffers if buffer.role is not BufferRole.INPUT}
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
