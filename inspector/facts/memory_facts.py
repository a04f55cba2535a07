"""What `ctrace memory` finds, as `--json` prints it and a run records it."""

from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.facts.outcome import ENDED_WELL
from ctrace.inspector.facts.wire import Integer, Number, Record


class MemoryPeak(Struct, frozen=True):
    """The moment with the most memory."""

    JSON: ClassVar[str] = "bytes measured part at=at|place"
    bytes: Integer
    measured: bool
    """Whether an allocator or torch's profiler counted it; otherwise it is computed from the sizes of tensors."""
    part: str
    """`forward`, `backward`, `optimizer`, or `program` outside of these."""
    at: str
    """What runs then: `file.py:41`, or a kernel or operator where no line is known."""


class AliveMemory(Struct, frozen=True):
    """Tensors of one line that are alive at the peak, and alike."""

    JSON: ClassVar[str] = "bytes kind file=file|relative line function shape dtype count source op"
    bytes: Integer
    kind: str
    """`parameter`, `gradient`, `optimizer`, `saved` for the backward, `temporary`, `input`, `output`, `graph_pool` of
    CUDA graphs, or `other`."""
    file: str | None
    line: Integer | None
    """The line that made them; of a gradient, the line that it is the gradient of. None: not known."""
    function: str | None
    shape: tuple[Integer, ...] | None
    """None: tensors of several shapes, or memory that is no tensor."""
    dtype: str
    count: Integer
    """How many tensors; views of one memory count once."""
    source: str = ""
    """The line of code."""
    op: str = ""
    """The operator or kernel that allocated it."""


class SavedMemory(Struct, frozen=True):
    """A tensor that a compiled forward saves for its backward."""

    JSON: ClassVar[str] = (
        "bytes file=file|relative line name eager_saves recompute_flops shape dtype reason source function"
    )
    bytes: Integer
    file: str | None
    line: Integer | None
    name: str
    """Its node in the graph of the forward."""
    eager_saves: bool
    """Whether eager saves a tensor of this line and of as many bytes."""
    recompute_flops: Number | None
    """What the backward would have to compute without it, from what it has anyway; None: that cannot be recomputed."""
    shape: tuple[Integer, ...] = ()
    dtype: str = ""
    reason: str = ""
    """Why it is saved and not recomputed."""
    source: str = ""
    function: str | None = None


class LineMemory(Struct, frozen=True):
    """What a line holds at the peak, in eager and compiled."""

    JSON: ClassVar[str] = "file=file|relative line bytes eager_bytes saved_bytes eager_saved_bytes source"
    file: str | None
    line: Integer | None
    bytes: Integer
    eager_bytes: Integer
    """At eager's own peak."""
    saved_bytes: Integer = 0
    """What the forward saves for the backward, compiled."""
    eager_saved_bytes: Integer = 0
    source: str = ""


class MemoryOption(Struct, frozen=True):
    """A change that may lower the peak."""

    JSON: ClassVar[str] = (
        "name text file=file|relative line peak_bytes extra_flops tried measured statement why_not computed_bytes "
        "gradient_change"
    )
    name: str
    text: str
    file: str | None
    line: Integer | None
    peak_bytes: Integer | None
    """The peak with it; None: it was not tried, or failed."""
    extra_flops: Number | None
    """What it computes again, in floating-point operations; None: not known."""
    tried: bool
    measured: bool
    """Whether the peak was measured, rather than computed."""
    statement: str = ""
    """The code that does it."""
    computed_bytes: Integer | None = None
    """What is computed for the peak with it, beside a measured one."""
    why_not: str = ""
    """Why it was not tried, or how it failed."""
    gradient_change: Number | None = None
    """How far the gradients are from eager's with it, as a share of their norm; None: it rounds nothing, or not known.
    """


class CallGrowth(Struct, frozen=True):
    """What is alive after one of several equal calls, beyond what was before the first one."""

    call: Integer
    bytes: Integer
    host_bytes: Integer | None = None
    """How much more memory the process has than before the first call; None: not measured."""


class HeldMemory(Struct, frozen=True):
    """What the calls leave behind, call after call."""

    JSON: ClassVar[str] = (
        "bytes count file=file|relative line holder source holder_file=holder_file|relative holder_line"
    )
    bytes: Integer
    """After the last call."""
    count: Integer
    file: str | None
    line: Integer | None
    """The line that made it."""
    holder: str
    """What holds it, such as `model.cache`; empty: not found."""
    source: str = ""
    holder_file: str | None = None
    holder_line: Integer | None = None
    """The line that puts it there; None: not known."""


class KindBytes(Struct, frozen=True):
    """How much of one kind is alive."""

    kind: str
    bytes: Integer


class MemoryMoment(Struct, frozen=True):
    """One point of a timeline: what is alive once something ran."""

    JSON: ClassVar[str] = "part at=at|place bytes kinds"
    part: str
    at: str
    bytes: Integer
    kinds: tuple[KindBytes, ...] = ()


class FoundMemory(Record, frozen=True):
    """The answer of `ctrace memory`."""

    JSON: ClassVar[str] = (
        "peak eager_peak computed_peak computed_eager_peak alive unattributed_bytes saved options growth eager_alive "
        "lines held timeline left_out problems device graphs flops train program saved_bytes eager_saved_bytes"
    )
    KIND: ClassVar[str] = "memory"
    peak: MemoryPeak
    """Compiled; measured with --build, otherwise computed."""
    eager_peak: MemoryPeak | None
    computed_peak: MemoryPeak | None = None
    """What is computed for the same call, beside a measured peak."""
    computed_eager_peak: MemoryPeak | None = None
    alive: tuple[AliveMemory, ...] = ()
    """At the peak, the largest first."""
    unattributed_bytes: Integer = 0
    """What is alive at the peak and belongs to no tensor of these; with them, it adds up to the peak."""
    eager_alive: tuple[AliveMemory, ...] = ()
    lines: tuple[LineMemory, ...] = ()
    saved: tuple[SavedMemory, ...] = ()
    options: tuple[MemoryOption, ...] = ()
    growth: tuple[CallGrowth, ...] = ()
    held: tuple[HeldMemory, ...] = ()
    timeline: tuple[MemoryMoment, ...] = ()
    left_out: tuple[str, ...] = ()
    """What the numbers do not count."""
    problems: tuple[str, ...] = ()
    device: str = "cpu"
    graphs: Integer = 0
    """How many compiled graphs ran in the call; a graph and its backward count once."""
    flops: Number = 0.0
    """The floating-point operations of compiled graphs in the step."""
    train: bool = False
    program: str | None = None
    """How a program ended; None: a model was called."""
    why_not: str = ""
    """Why there are no numbers; empty: there are."""
    saved_bytes: Integer = 0
    """The most that is kept for the backward at one time, compiled; what eager code beside graphs saves included."""
    eager_saved_bytes: Integer = 0

    @property
    def is_cut_short(self) -> bool:
        """Whether the program failed before its end, so that a later peak is not known."""
        return self.program not in (None, ENDED_WELL)


def with_measured(found: FoundMemory, compiled: int, eager: int) -> FoundMemory:
    """Put measured peaks, in bytes, in the place of the computed ones, which say where and stay beside them."""
    # Called only where both sides were computed: the measured numbers take the places of these.
    assert found.eager_peak is not None
    return replace(
        found,
        peak=replace(found.peak, bytes=compiled, measured=True),
        computed_peak=found.peak,
        eager_peak=replace(found.eager_peak, bytes=eager, measured=True),
        computed_eager_peak=found.eager_peak,
        # From the measured peak, so that the parts still add up to the number that is shown.
        unattributed_bytes=compiled - sum(each.bytes for each in found.alive),
    )


class StepMemoryDocument(Struct, frozen=True):
    """The answer of `ctrace memory` about a target."""

    JSON: ClassVar[str] = "schema target rank world *found"
    target: str
    found: FoundMemory
    cwd: str
    rank: Integer | None = None
    """With --world, which rank of the job it is; None: no job."""
    world: Integer | None = None
    """How many ranks the job has."""


class TriedSize(Struct, frozen=True):
    """A size that was run."""

    size: Integer
    bytes: Integer
    """Its peak."""


class ProductWork(Struct, frozen=True):
    """The operations of matrix products, attention and convolutions on tensors of a dtype."""

    dtype: str
    """`tf32` for float32 that a GPU may compute so."""
    flops: float


class FitDocument(Struct, frozen=True):
    """The largest input that fits."""

    JSON: ClassVar[str] = (
        "schema target fits peak_bytes limit_bytes line=line|place what over_bytes device tried least_seconds"
    )
    target: str
    fits: Integer | None
    """The largest size that fits; 0: not even 1 does; None: every size that was tried fits."""
    peak_bytes: Integer | None
    """The peak at that size."""
    limit_bytes: Integer
    line: str | None
    """`file:line` that holds the most at the peak of the first size that does not fit."""
    what: str
    """`batch`, or the input and dimension."""
    over_bytes: Integer | None
    """The peak at the first size that does not fit."""
    device: str
    tried: tuple[TriedSize, ...] = ()
    least_seconds: float | None = None
    """The lower bound on the time of a step at the size that fits: its matrix products, attention and convolutions at
    the highest rates of the GPU; None: not known."""
    work: tuple[ProductWork, ...] = ()
    """What that takes."""
    limiting: AliveMemory | None = None
    """What holds the most there."""
    cwd: str = ""
