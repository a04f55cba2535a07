"""Events about kernels that were built and launched."""

from msgspec import Struct

from ctrace.inspector.facts.built import Built, Gpu, Ir, KernelRefusal, LaunchTiming
from ctrace.inspector.facts.kernels import Stage


class KernelBuilt(Struct, frozen=True):
    """A kernel of a graph part was compiled with one configuration; a separate entry has its code."""

    built: Built


class KernelRefused(Struct, frozen=True):
    """Torch left out a configuration of a kernel."""

    refused: KernelRefusal


class KernelChosen(Struct, frozen=True):
    """Torch chose one of several configurations of a kernel."""

    graph: str
    stage: Stage
    kernel: str
    hash: str


class CodeBuilt(Struct, frozen=True):
    """The code of a compiled kernel, by stage."""

    hash: str
    ir: dict[str, Ir]


class LaunchTimed(Struct, frozen=True):
    """A launch of a kernel was timed, or could not be timed."""

    timed: LaunchTiming


class GpuSeen(Struct, frozen=True):
    """The facts about the GPU."""

    gpu: Gpu


BuiltEvent = KernelBuilt | KernelRefused | KernelChosen | CodeBuilt | LaunchTimed | GpuSeen
