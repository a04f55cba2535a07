"""What a log says of kernels that were built and launched; `decode/` makes these."""

from msgspec import Struct

from ctrace.inspector.model.built import Built, Gpu, Ir, KernelRefusal, LaunchTiming
from ctrace.inspector.model.kernels import Stage


class KernelBuilt(Struct, frozen=True):
    """A kernel of a graph part was compiled with one configuration; a separate entry has its code."""

    built: Built


class KernelRefused(Struct, frozen=True):
    """A configuration of a kernel was left out."""

    refused: KernelRefusal


class KernelChosen(Struct, frozen=True):
    """Of several configurations of a kernel, one is launched."""

    graph: str
    stage: Stage
    kernel: str
    hash: str


class CodeBuilt(Struct, frozen=True):
    """The code of a compiled kernel, by stage."""

    hash: str
    ir: dict[str, Ir]


class LaunchTimed(Struct, frozen=True):
    """A kernel's launch was timed, or could not be."""

    timed: LaunchTiming


class GpuSeen(Struct, frozen=True):
    """What the GPU is."""

    gpu: Gpu


BuiltEvent = KernelBuilt | KernelRefused | KernelChosen | CodeBuilt | LaunchTimed | GpuSeen
