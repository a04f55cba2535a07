"""What a log says of kernels that were built and launched; `decode/` makes these."""

from dataclasses import dataclass

from ctrace.inspector.model.built import Built, Gpu, Ir, KernelRefusal, LaunchTiming
from ctrace.inspector.model.kernels import Stage


@dataclass(frozen=True, slots=True)
class KernelBuilt:
    """A kernel of a graph part was compiled with one configuration; a separate entry has its code."""

    built: Built


@dataclass(frozen=True, slots=True)
class KernelRefused:
    """A configuration of a kernel was left out."""

    refused: KernelRefusal


@dataclass(frozen=True, slots=True)
class KernelChosen:
    """Of several configurations of a kernel, one is launched."""

    graph: str
    stage: Stage
    kernel: str
    hash: str


@dataclass(frozen=True, slots=True)
class CodeBuilt:
    """The code of a compiled kernel, by stage."""

    hash: str
    ir: dict[str, Ir]


@dataclass(frozen=True, slots=True)
class LaunchTimed:
    """A kernel's launch was timed, or could not be."""

    timed: LaunchTiming


@dataclass(frozen=True, slots=True)
class GpuSeen:
    """What the GPU is."""

    gpu: Gpu


BuiltEvent = KernelBuilt | KernelRefused | KernelChosen | CodeBuilt | LaunchTimed | GpuSeen
