"""How Inductor's scheduler fused the nodes of a graph part: `Fusion` as a Session has it, and the record in the log.

The record (`FusionRecord`) has rounds, nodes and buffers, which refer to names by number.
"""

from enum import StrEnum
from typing import Any, ClassVar

from msgspec import UNSET, Struct, UnsetType, field

from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.target_gpu import Basis
from ctrace.inspector.facts.wire import Integer, OfGraph


class NodeKind(StrEnum):
    """What a node of Inductor's scheduler does."""

    POINTWISE = "pointwise"
    REDUCTION = "reduction"
    SCAN = "scan"
    SORT = "sort"
    TEMPLATE = "template"
    """A matmul or convolution from an Inductor template."""
    EXTERNAL = "external"
    """A library call (extern kernel)."""
    USER = "user"
    """A Triton kernel that the user wrote."""
    FOREACH = "foreach"
    NOTHING = "nothing"
    """An op that generates no code, because its buffer is a part of another buffer."""
    OTHER = "other"


class BufferRole(StrEnum):
    """The role of a buffer in its graph part."""

    INPUT = "input"
    OUTPUT = "output"
    INNER = "inner"


class Buffer(Struct, frozen=True):
    """A tensor in memory, as the scheduler knows it."""

    JSON: ClassVar[str] = "name role dtype|null_if_empty shape stride device bytes"
    name: str
    role: BufferRole
    dtype: str
    """Such as `float32`; empty for a buffer that is not a single tensor."""
    shape: tuple[str, ...]
    """Sizes as torch prints them; a dynamic size is a symbol."""
    stride: tuple[str, ...]
    device: str
    bytes: Integer | None = None
    """Bytes of its distinct elements: a dimension of stride 0 counts once. A symbol stands for the size in the call
    that the graph was compiled for. None: not known.
    """


class Access(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The memory traffic between a node and one buffer.

    Bytes count distinct elements: an element that is read twice counts once, and a broadcast dimension does not count.
    If an index depends on data (a gather), the bytes are an upper bound. If a size depends on data (the buffer's
    `bytes` are None), the bytes follow from torch's guess of that size.
    """

    JSON: ClassVar[str] = "buffer read written"
    buffer: str
    read: Integer
    written: Integer
    part_read: Integer | None = None
    """Identifies the set of elements that the node reads: equal numbers mean equal sets. None: not recorded."""
    part_written: Integer | None = None

    def __post_init__(self) -> None:
        """Refuse one of two sets of elements.

        Raises:
            ValueError: the other is missing.
        """
        # A list may end before any field that has a default, so that msgspec takes one of the two alone.
        if (self.part_read is None) != (self.part_written is None):
            raise ValueError("an access is not a name and two numbers, or four")


class Node(Struct, frozen=True):
    """A node of Inductor's scheduler: it becomes one kernel, or one loop nest of a C++ kernel."""

    JSON: ClassVar[str] = (
        "basis=BASIS bases=BASES name kind operations loops ops lines|places read written flops accesses"
    )
    name: str
    """Torch's name: the names of its operations, joined by `_`."""
    kind: NodeKind
    operations: tuple[str, ...]
    """The names of the original nodes that it consists of; only its own name if nothing was fused into it."""
    loops: str
    """The loop ranges as torch groups them, reduction last: `64, 128 | 256`."""
    ops: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    """`file:line` of the user's code; empty: torch does not know."""
    accesses: tuple[Access, ...] = ()
    flops: int | None = None
    """Floating-point operations. None: not known."""
    BASIS: ClassVar[Basis] = Basis.EMITTED
    BASES: ClassVar[dict[str, Basis]] = dict.fromkeys(("read", "written", "flops", "accesses"), Basis.COMPUTED)

    @property
    def read(self) -> int:
        """Bytes read."""
        return sum(access.read for access in self.accesses)

    @property
    def written(self) -> int:
        """Bytes written."""
        return sum(access.written for access in self.accesses)


class Score(Struct, frozen=True):
    """The rank of a pair in the scheduler's order: the first number that differs decides, and the higher one comes
    first.

    If one pair shares more than 16 times as many bytes as the other, `shared` comes before `kind` (2.13,
    choices.py:81).
    """

    template: int
    kind: int
    """1: both nodes are reductions, or neither is; -1: one reduction contains the other."""
    shared: int
    """Bytes that both nodes access with the same indexing."""
    overlap: int
    """Bytes of buffers that both read with different indexing; 0 if torch does not count these (`OVERLAP_SCORE`)."""
    proximity: int
    """The negative distance between the two nodes in program order."""


class FusionCandidate(Struct, frozen=True):
    """A pair that may be fused, and its rank."""

    first: str
    second: str
    score: Score | None = None


class Refusal(Struct, frozen=True):
    """A pair that the scheduler tried and did not fuse."""

    JSON: ClassVar[str] = "first second reason|null_if_empty"
    first: str
    second: str
    reason: str
    """Torch's reason, or a note that a benchmark decided; empty: torch logged no reason."""


class FusionRound(Struct, frozen=True):
    """One round of the scheduler: the number of nodes before and after, and the fused pairs in order."""

    before: int
    after: int
    fused: tuple[tuple[str, str], ...] = ()
    reorder: bool = False
    """Whether this is the last round, in which the scheduler may reorder loops; torch logs no header for it."""
    tried: int | None = None
    """Number of distinct pairs that the scheduler checked."""
    candidates: tuple[FusionCandidate, ...] = ()
    """Pairs that may be fused, in the order in which the scheduler tried them."""
    refused: tuple[Refusal, ...] = ()


class Fusion(Struct, frozen=True):
    """How the scheduler fused the nodes of one graph part."""

    graph: str
    stage: Stage
    before: int
    after: int
    rounds: tuple[FusionRound, ...] = ()
    refused: int = 0
    """How often the scheduler refused a pair and logged a reason."""
    nodes: tuple[Node, ...] = ()
    """Nodes before the first round; empty in a log of an older ctrace."""
    result: tuple[Node, ...] = ()
    """Nodes after the last round, in the order in which they run."""
    buffers: tuple[Buffer, ...] = ()
    outputs: tuple[str, ...] = ()
    """Names of the buffers that the graph part returns or mutates, each once; these may include inputs."""


_SINCE: Any = UNSET
"""A field that every round has, except in the logs of an older ctrace, which wrote `fused` instead."""


class RecordedRound(Struct):
    """One round of the scheduler, which the hook fills while it runs; see `FusionRound`.

    Numbers are those of names and reasons in `FusionRecord`.
    """

    before: Integer
    after: Integer
    reorder: bool = _SINCE
    tried: Integer = _SINCE
    # Lists, because the hook adds to them while the scheduler runs.
    pairs: list[tuple[Integer, Integer]] = _SINCE
    """The fused pairs."""
    candidates: list[tuple[Integer, ...]] = _SINCE
    """Two names and, if torch has a score, the five numbers of `Score`."""
    refused: list[tuple[Integer, Integer, Integer]] = _SINCE
    """Two names and a reason."""
    # UNSET, because the log gets every other default.
    fused: list[tuple[str, str]] | UnsetType = UNSET
    """The fused pairs as an older ctrace wrote them, by name and without all the rest."""

    def __post_init__(self) -> None:
        """Refuse a round that lacks a field.

        Raises:
            ValueError: it does.
        """
        # The hook fills all of these or none, so that some of them are what damage left.
        fields = self.reorder, self.tried, self.pairs, self.candidates, self.refused
        if self.fused is UNSET and any(each is _SINCE for each in fields):
            raise ValueError("a round without all of its fields")


class FusedNode(Struct, frozen=True, kw_only=True):
    """A node of the scheduler after fusion; see `Node`."""

    name: str
    kind: NodeKind
    operations: tuple[str, ...]
    loops: str
    accesses: tuple[Access, ...]
    flops: Integer | None = None


class ScheduledNode(FusedNode, frozen=True, kw_only=True):
    """A node before fusion, with the numbers of its ops and stacks in `FusionRecord`."""

    ops: tuple[Integer, ...]
    stacks: tuple[Integer, ...]


class FusionRecord(OfGraph, frozen=True):
    """How the scheduler fused the nodes of one graph part; texts that recur are numbered."""

    KIND: ClassVar[str] = "fusion"
    stage: Stage
    before: Integer
    after: Integer
    refused: Integer
    rounds: tuple[RecordedRound, ...]
    names: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    stacks: tuple[str, ...] = ()
    nodes: tuple[ScheduledNode, ...] = ()
    """Before the first round; empty in the log of an older ctrace."""
    result: tuple[Integer | FusedNode, ...] = ()
    """After the last round; a number is that of a node in `nodes` that fusion left unchanged."""
    buffers: tuple[Buffer, ...] = ()
    outputs: tuple[str, ...] = ()


class FusionDone(Struct, frozen=True):
    """The same with names in place of numbers."""

    id: str
    fusion: Fusion
    """The nodes have no user lines yet; `stacks` has the stacks to find them."""
    stacks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Stack traces, keyed by node before fusion."""
