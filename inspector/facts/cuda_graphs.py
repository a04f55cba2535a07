"""Whether torch recorded or skipped the CUDA graph of each graph part, and why."""

from enum import StrEnum

from msgspec import Struct

from ctrace.inspector.facts.kernels import Stage


class CudaGraphStatus(StrEnum):
    """Whether torch recorded a CUDA graph."""

    RECORDED = "recorded"
    SKIPPED = "skipped"
    UNKNOWN = "unknown"
    """No known reason prevents it, but no call ran that would record it."""


class CudaGraphReason(Struct, frozen=True):
    """Why torch skips a CUDA graph, or what in the graph part prevents one."""

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
    limits: dict[str, int] = {}
    """Torch's limits on recordings, by their names in `torch._inductor.config.triton`."""


class Offender(Struct, frozen=True):
    """A node of a graph part that a CUDA graph cannot contain."""

    text: str
    stack: str


class CudaGraphChecked(Struct, frozen=True):
    """While compiling, torch decided whether a graph part may become a CUDA graph."""

    id: str
    stage: Stage
    reasons: tuple[str, ...]
    offenders: tuple[Offender, ...]
    limits: dict[str, int] = {}


class CudaGraphPartitioned(Struct, frozen=True):
    """While compiling, torch split a graph part into CUDA graphs and what runs between them."""

    id: str
    stage: Stage
    graphs: int
    reasons: tuple[str, ...] = ()
    """Why nothing is left for a CUDA graph."""
    offenders: tuple[Offender, ...] = ()


class CudaGraphSkipped(Struct, frozen=True):
    """At run time, torch decided that a graph part does not become a CUDA graph."""

    id: str
    stage: Stage
    reason: str


class CudaGraphWarmedUp(Struct, frozen=True):
    """Torch ran a graph part in the memory of CUDA graphs without recording one."""

    id: str
    stage: Stage
    why: str
    """Empty for the first call, which always is a warm-up."""


class CudaGraphRecorded(Struct, frozen=True):
    """Torch recorded a CUDA graph."""

    id: str
    stage: Stage
    sizes: str
    piece: int = 0
    why: str = ""
    """Why the earlier recordings do not fit."""
    pool_bytes: int | None = None
    replay: float | None = None
    launched: float | None = None
    untimed: str = ""
    """This and the times are in logs of earlier versions only; see `CudaGraphTimed`."""


class CudaGraphTimed(Struct, frozen=True):
    """The replay of a CUDA graph was timed after the program had ended, or not."""

    id: str
    stage: Stage
    replay: float | None = None
    launched: float | None = None
    untimed: str = ""


class CudaGraphCalled(Struct, frozen=True):
    """A graph part that may become a CUDA graph was called for the first time."""

    id: str
    stage: Stage


CudaGraphEvent = (
    CudaGraphChecked
    | CudaGraphPartitioned
    | CudaGraphSkipped
    | CudaGraphCalled
    | CudaGraphWarmedUp
    | CudaGraphRecorded
    | CudaGraphTimed
)
