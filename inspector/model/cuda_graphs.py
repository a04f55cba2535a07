"""What became of the CUDA graph of each graph part: recorded, skipped and why."""

from enum import StrEnum

from msgspec import Struct

from ctrace.inspector.model.kernels import Stage


class CudaGraphStatus(StrEnum):
    """What became of a CUDA graph."""

    RECORDED = "recorded"
    SKIPPED = "skipped"
    UNKNOWN = "unknown"
    """Nothing speaks against it, but nothing was run that would record it."""


class CudaGraphReason(Struct, frozen=True):
    """Why torch skips a CUDA graph, or what in the graph part keeps it from being one."""

    text: str
    file: str | None = None
    line: int | None = None


class CudaGraph(Struct, frozen=True):
    """The CUDA graph of one graph part, where torch.compile was asked for CUDA graphs."""

    graph: str
    stage: Stage
    status: CudaGraphStatus
    reasons: tuple[CudaGraphReason, ...] = ()
    """As torch words them; it stops at the first one that it finds while compiling."""
    found: tuple[CudaGraphReason, ...] = ()
    """Every tensor and op of the graph part that CUDA graphs cannot hold; torch may run these outside of the graph."""
    recordings: int | None = None
    """None: the graph part was not run."""
    inputs: tuple[str, ...] = ()
    """What was recorded, by the sizes of its inputs, each once."""


class Offender(Struct, frozen=True):
    """A node of a graph part that a CUDA graph cannot hold."""

    text: str
    stack: str


class CudaGraphChecked(Struct, frozen=True):
    """Torch decided, while compiling, whether a graph part may become a CUDA graph."""

    id: str
    stage: Stage
    reasons: tuple[str, ...]
    offenders: tuple[Offender, ...]


class CudaGraphSkipped(Struct, frozen=True):
    """Torch decided, while running, that a graph part does not become a CUDA graph."""

    id: str
    stage: Stage
    reason: str


class CudaGraphRecorded(Struct, frozen=True):
    """Torch recorded a CUDA graph."""

    id: str
    stage: Stage
    sizes: str


class CudaGraphCalled(Struct, frozen=True):
    """A graph part that may become a CUDA graph was called for the first time."""

    id: str
    stage: Stage


CudaGraphEvent = CudaGraphChecked | CudaGraphSkipped | CudaGraphRecorded | CudaGraphCalled
