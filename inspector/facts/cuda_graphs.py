"""Whether torch recorded or skipped the CUDA graph of each graph part, and why."""

from enum import StrEnum
from typing import ClassVar

from msgspec import Struct, field

from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.wire import Integer, Number, OfCompilation


class CudaGraphStatus(StrEnum):
    """Whether torch recorded a CUDA graph."""

    RECORDED = "recorded"
    SKIPPED = "skipped"
    UNKNOWN = "unknown"
    """No known reason prevents it, but no call ran that would record it."""


class CudaGraphReason(Struct, frozen=True):
    """Why torch skips a CUDA graph, or what in the graph part prevents one."""

    JSON: ClassVar[str] = "text file|relative line"
    text: str
    file: str | None = None
    line: int | None = None


class CudaGraph(Struct, frozen=True):
    """The CUDA graph of one graph part, if CUDA graphs are enabled."""

    graph: str
    stage: Stage
    status: CudaGraphStatus
    reasons: tuple[CudaGraphReason, ...] = ()
    """Torch's reasons to skip it; while compiling, torch stops at the first one."""
    found: tuple[CudaGraphReason, ...] = ()
    """Every tensor and op that a CUDA graph cannot contain; torch may run these nodes outside of the CUDA graph."""
    held_back: tuple[str, ...] = ()
    """Why torch ran it without a CUDA graph although it had warmed it up, for calls that it may still record."""
    was_warmed_up: bool = False
    """Whether torch ran it once without recording it, as it does at first."""
    recordings: int | None = None
    """How often torch recorded it; None: the graph part did not run."""
    pieces: int | None = None
    """How many CUDA graphs torch splits it into; None: not known."""
    inputs: tuple[str, ...] = ()
    """The distinct input sizes for which torch recorded it, or the piece of it that was recorded most often."""
    repeats: int | None = None
    """How often torch recorded that piece; None: as often as the part."""
    again: tuple[CudaGraphReason, ...] = ()
    """Torch's reasons to record it again for sizes that it had recorded before, each once."""
    pool_bytes: int | None = None
    """What the pool that all CUDA graphs of a GPU share holds after its last recording; None: not measured."""
    replay: float | None = None
    """Seconds of a replay, without copying the inputs; None: not measured."""
    launched: float | None = None
    """Seconds of the same call if its kernels are launched one by one; None: not measured."""
    untimed: str = ""
    """Why `replay` was not measured, if a recording was made."""
    # msgspec makes a new one for each record.
    limits: dict[str, int] = {}
    """Torch's limits on recordings, by their names in `torch._inductor.config.triton`."""


class Offender(Struct, frozen=True):
    """A node of a graph part that a CUDA graph cannot contain."""

    text: str
    stack: str


class CudaGraphEvent(OfCompilation, frozen=True, tag_field="what"):
    """A record about the CUDA graph of a graph part; `what` in the log tells which."""

    KIND: ClassVar[str] = "cuda_graph"
    stage: Stage


class CudaGraphChecked(CudaGraphEvent, frozen=True, tag="checked"):
    """While compiling, torch decided whether a graph part may become a CUDA graph."""

    reasons: tuple[str, ...] = ()
    offenders: tuple[Offender, ...] = ()
    limits: dict[str, Integer] = field(default_factory=dict)


class CudaGraphPartitioned(CudaGraphEvent, frozen=True, tag="partitioned"):
    """While compiling, torch split a graph part into CUDA graphs and what runs between them."""

    graphs: Integer
    reasons: tuple[str, ...] = ()
    """Why nothing is left for a CUDA graph."""
    offenders: tuple[Offender, ...] = ()


class CudaGraphSkipped(CudaGraphEvent, frozen=True, tag="skipped"):
    """At run time, torch decided that a graph part does not become a CUDA graph."""

    reason: str
    piece: Integer = 0
    """Which of the CUDA graphs of the part, from 0."""


class CudaGraphWarmedUp(CudaGraphEvent, frozen=True, tag="warmed_up"):
    """Torch ran a graph part in the memory of CUDA graphs without recording one."""

    why: str = ""
    """Empty for the first call, which always is a warm-up."""
    piece: Integer = 0


class CudaGraphRecorded(CudaGraphEvent, frozen=True, tag="recorded"):
    """Torch recorded a CUDA graph."""

    sizes: str
    piece: Integer = 0
    why: str = ""
    """Why the earlier recordings do not fit."""
    pool_bytes: Integer | None = None
    replay: Number | None = None
    launched: Number | None = None
    untimed: str = ""
    """This and the times are in logs of earlier versions only; see `CudaGraphTimed`."""


class CudaGraphTimed(CudaGraphEvent, frozen=True, tag="timed"):
    """The replay of a CUDA graph was timed after the program had ended, or not."""

    sizes: str = ""
    replay: Number | None = None
    launched: Number | None = None
    untimed: str = ""
    piece: Integer = 0


class CudaGraphCalled(CudaGraphEvent, frozen=True, tag="called"):
    """A graph part that may become a CUDA graph was called for the first time."""
