"""Compute the memory that each kernel of a graph needs: what is alive while it runs, in the order of the schedule.

Sizes come from the shapes, and a buffer lives from the kernel that first writes it to the last one that accesses it.
What only exists at run time is not counted: the allocator's rounding, buffers that Inductor reuses in place, and
workspaces of library calls.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.facts.fusion_facts import BufferRole, Fusion, Node
from ctrace.inspector.facts.kernels import Stage
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.target_facts import Basis
from ctrace.inspector.findings.graphs.graph_view import compiled
from ctrace.inspector.findings.graphs.saved_tensors import SavedByForward, kept


class Moment(Struct, frozen=True):
    """The bytes that are alive while one kernel runs."""

    JSON: ClassVar[str] = "kernel=node.name ops=node.ops lines=node.lines|places inputs held results temporary"
    node: Node
    inputs: int
    """Parameters and inputs, which the caller owns."""
    held: int
    """In the forward: results and what is saved for the backward; in the backward: what is still saved."""
    results: int
    """In the backward: gradients, those that it gets and those that it returns."""
    temporary: int
    """What a later kernel of the same part still needs."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.inputs + self.held + self.results + self.temporary


class PartMemory(Struct, frozen=True):
    """One graph part over time."""

    JSON: ClassVar[str] = "stage unknown moments"
    stage: Stage
    moments: tuple[Moment, ...]
    unknown: int
    """How many buffers have an unknown size, and are not counted."""


class GraphMemory(Struct, frozen=True):
    """One graph over time: the forward, then the backward if the run has one."""

    JSON: ClassVar[str] = "basis=BASIS graph peak=most saved=saved.made parts"
    graph: str
    parts: tuple[PartMemory, ...]
    saved: SavedByForward | None
    """What the forward saves for the backward; None if there is no backward, or the log does not say."""
    BASIS: ClassVar[Basis] = Basis.COMPUTED

    @property
    def most(self) -> int | None:
        """The bytes at the peak."""
        return None if self.peak is None else self.peak[1].total

    @property
    def peak(self) -> tuple[PartMemory, Moment] | None:
        """The moment with the most bytes; None if nothing runs."""
        moments = [(part, moment) for part in self.parts for moment in part.moments]
        return max(moments, key=lambda found: found[1].total, default=None)


class MemoryDocument(Struct, frozen=True):
    """Memory over time, for the page."""

    JSON: ClassVar[str] = "graphs"
    graphs: tuple[GraphMemory, ...]
    cwd: str


def memory(session: Session) -> tuple[GraphMemory, ...]:
    """Compute the memory of each graph whose schedule the log has."""
    graphs = {each.id: each for each in compiled(session)}
    parts: dict[str, list[Fusion]] = {}
    for fusion in session.fusions:
        if fusion.result and fusion.buffers:
            parts.setdefault(fusion.graph, []).append(fusion)
    return tuple(_graph(name, some, kept(graphs[name], {}) if name in graphs else None) for name, some in parts.items())


def _graph(name: str, parts: list[Fusion], saved: SavedByForward | None) -> GraphMemory:
    backward = [each for each in parts if each.stage is Stage.BACKWARD]
    others = [each for each in parts if each.stage is not Stage.BACKWARD]
    inputs = max((sum(_sizes(each, BufferRole.INPUT).values()) for each in others), default=0)
    found = [PartMemory(each.stage, tuple(_forward(each)), _unknown(each)) for each in others]
    found += [PartMemory(each.stage, tuple(_backward(each, saved, inputs)), _unknown(each)) for each in backward]
    return GraphMemory(name, tuple(found), saved)


def _forward(fusion: Fusion) -> Iterator[Moment]:
    inputs = sum(_sizes(fusion, BufferRole.INPUT).values())
    outputs = _outputs(fusion)
    for node, alive in _alive(fusion, outputs):
        held = sum(size for name, size in alive.items() if name in outputs)
        yield Moment(node, inputs, held, 0, sum(alive.values()) - held)


def _backward(fusion: Fusion, saved: SavedByForward | None, inputs: int) -> Iterator[Moment]:
    """Yield the moments of a backward: autograd frees each saved tensor after its last use.

    An input of the backward is saved memory, memory of the caller (a parameter), or a gradient.
    """
    tensors = () if saved is None else saved.saved
    made = {each.node.name: each.root.name for each in tensors if each.is_made}
    bytes_of = {each.root.name: (each.memory and each.memory.bytes) or 0 for each in tensors if each.is_made}
    owned = {each.node.name for each in tensors if not each.is_made}
    sizes = _sizes(fusion, BufferRole.INPUT)
    gradients = {name: size for name, size in sizes.items() if name not in made and name not in owned}
    inputs = max(inputs, sum(size for name, size in sizes.items() if name in owned))
    last = _last_uses(fusion)
    until: dict[str, int] = {}
    for name, root in made.items():
        until[root] = max(until.get(root, -1), last.get(name, -1))
    outputs = _outputs(fusion)
    for at, (node, alive) in enumerate(_alive(fusion, outputs)):
        held = sum(size for root, size in bytes_of.items() if until[root] >= at)
        results = sum(size for name, size in alive.items() if name in outputs)
        received = sum(size for name, size in gradients.items() if last.get(name, -1) >= at)
        yield Moment(node, inputs, held, results + received, sum(alive.values()) - results)


def _outputs(fusion: Fusion) -> set[str]:
    return {*fusion.outputs, *(each.name for each in fusion.buffers if each.role is BufferRole.OUTPUT)}


def _sizes(fusion: Fusion, *roles: BufferRole) -> dict[str, int]:
    return {each.name: each.bytes for each in fusion.buffers if each.role in roles and each.bytes is not None}


def _unknown(fusion: Fusion) -> int:
    return sum(each.bytes is None for each in fusion.buffers)


def _last_uses(fusion: Fusion) -> dict[str, int]:
    return {access.buffer: at for at, node in enumerate(fusion.result) for access in node.accesses}


def _alive(fusion: Fusion, outputs: Iterable[str]) -> Iterator[tuple[Node, Mapping[str, int]]]:
    """Yield each node with the buffers that the part allocated and that are alive while it runs; outputs stay."""
    sizes = _sizes(fusion, BufferRole.INNER, BufferRole.OUTPUT)
    last, stays = _last_uses(fusion), set(outputs)
    alive: dict[str, int] = {}
    for at, node in enumerate(fusion.result):
        for access in node.accesses:
            if access.buffer in sizes:
                alive[access.buffer] = sizes[access.buffer]
        yield node, dict(alive)
        for access in node.accesses:
            if last[access.buffer] == at and access.buffer not in stays:
                alive.pop(access.buffer, None)
