"""How Inductor's scheduler fused the nodes of a graph part; plain frozen records."""

from enum import StrEnum

from msgspec import Struct

from ctrace.inspector.model.kernels import Stage


class NodeKind(StrEnum):
    """What a node of Inductor's scheduler does."""

    POINTWISE = "pointwise"
    REDUCTION = "reduction"
    SCAN = "scan"
    SORT = "sort"
    TEMPLATE = "template"
    """A matrix product or convolution that Inductor generates itself."""
    EXTERNAL = "external"
    """A call of a library."""
    USER = "user"
    """A Triton kernel that the user wrote."""
    FOREACH = "foreach"
    NOTHING = "nothing"
    """No code: a buffer that is a part of another."""
    OTHER = "other"


class Role(StrEnum):
    """What a buffer is to its graph part."""

    INPUT = "input"
    OUTPUT = "output"
    INNER = "inner"


class Buffer(Struct, frozen=True):
    """A tensor in memory, as the scheduler knows it."""

    name: str
    role: Role
    dtype: str
    """`float32`; empty: several tensors in one, or none."""
    shape: tuple[str, ...]
    """Sizes as torch writes them; a symbol for a dynamic one."""
    stride: tuple[str, ...]
    device: str
    bytes: int | None
    """Of its elements, dimensions of stride 0 once; symbols taken at the sizes that the graph was compiled with.

    None: not known.
    """


class Access(Struct, frozen=True):
    """What a node moves of one buffer.

    Bytes of the distinct elements that it touches: an element that is read twice counts once, a dimension that is
    broadcast does not count. Where the place depends on data (a gather) it is the most that there can be; where a
    size does (the buffer's `bytes` are None), torch's guess of that size is taken.
    """

    buffer: str
    read: int = 0
    written: int = 0
    part_read: int | None = None
    """A number for the elements that it reads: equal numbers are equal elements. None: not recorded."""
    part_written: int | None = None


class Node(Struct, frozen=True):
    """A node of Inductor's scheduler: what will be one kernel, or one loop nest of a C++ kernel."""

    name: str
    """Torch's: its operations' names, joined by `_`."""
    kind: NodeKind
    operations: tuple[str, ...]
    """Names of the nodes that it was fused from, its own where it is one."""
    loops: str
    """The sizes of its loops, as torch groups them: `64, 128 | 256`, those of the reduction last."""
    ops: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    """`file:line` of the user's code; empty: torch does not know."""
    accesses: tuple[Access, ...] = ()
    flops: int | None = None
    """Arithmetic on floating-point values; see `capture/flops.py` for what counts. None: not known."""

    @property
    def read(self) -> int:
        """Bytes read."""
        return sum(access.read for access in self.accesses)

    @property
    def written(self) -> int:
        """Bytes written."""
        return sum(access.written for access in self.accesses)


class Score(Struct, frozen=True):
    """By what the scheduler orders pairs: the first number that differs decides, higher comes first.

    Where one pair shares more than 16 times what the other shares, that comes before `kind` (2.13, choices.py:81).
    """

    template: int
    kind: int
    """1: both are reductions, or neither is; -1: one reduction within another."""
    shared: int
    """Bytes that both touch in the same way."""
    overlap: int
    """Bytes of a buffer that both read, in other ways; 0 before torch 2.12, which did not look."""
    proximity: int
    """Minus the distance in the order of the program."""


class Candidate(Struct, frozen=True):
    """A pair that may be fused, and why it comes where it does."""

    first: str
    second: str
    score: Score | None = None


class Refusal(Struct, frozen=True):
    """A pair that the scheduler tried and did not fuse."""

    first: str
    second: str
    reason: str
    """Torch's, or that a benchmark decided; empty: it gave none."""


class FusionRound(Struct, frozen=True):
    """One round of the scheduler: nodes before, nodes after, pairs fused in their order."""

    before: int
    after: int
    fused: tuple[tuple[str, str], ...] = ()
    reorder: bool = False
    """The last round, in which loops may be reordered; torch logs no header for it."""
    tried: int | None = None
    """Pairs asked about, each counted once."""
    candidates: tuple[Candidate, ...] = ()
    """Pairs found fusible, in the order in which they were tried."""
    refused: tuple[Refusal, ...] = ()


class Fusion(Struct, frozen=True):
    """How the scheduler of one graph part merged its nodes."""

    graph: str
    stage: Stage
    before: int
    after: int
    rounds: tuple[FusionRound, ...] = ()
    refused: int = 0
    """How often the scheduler declined a pair with a reason."""
    nodes: tuple[Node, ...] = ()
    """Before the first round; empty in a log of an older ctrace."""
    result: tuple[Node, ...] = ()
    """After the last, in the order in which they run."""
    buffers: tuple[Buffer, ...] = ()
    outputs: tuple[str, ...] = ()
    """Buffers that the graph part gives back or changes in place, without repetition; inputs can be among them."""
