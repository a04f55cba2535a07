"""What a run with `--build` learned of its kernels: how they were compiled, and how long a launch takes."""

from collections.abc import Mapping

from msgspec import Struct, field

from ctrace.inspector.model.kernels import Stage
from ctrace.inspector.model.target import Multiprocessor

IR_STAGES = ("ttir", "ttgir", "llir", "ptx", "sass")
"""What Triton makes of a kernel for an NVIDIA GPU, in its order; the last is read from the binary."""
BINARY = "cubin"
"""The stage whose code is no text; kept where the last of those above was not read from it yet."""


class Ir(Struct, frozen=True):
    """One stage of a kernel's code, as the log keeps it."""

    text: str
    packed: bool = False
    """Whether `text` is zlib's output in base64; so of a binary."""


class Built(Struct, frozen=True):
    """A Triton kernel of one graph part, compiled with one configuration."""

    graph: str
    stage: Stage
    kernel: str
    """The same as `Kernel.name`."""
    hash: str
    """Triton's, of the source, the configuration and the target."""
    warps: int
    """In a block."""
    stages: int
    """Of software pipelining."""
    blocks: Mapping[str, int] = field(default_factory=dict)
    """Sizes that the configuration sets, such as `XBLOCK`."""
    registers: int | None = None
    """Of a thread; None: not known, as it was never loaded."""
    spills: int | None = None
    """Registers of a thread that live in memory instead: its 32-bit words of local memory, as Triton counts."""
    shared: int | None = None
    """Bytes of a block."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Compile time by stage, in order; empty: not measured, as it came from a cache or another process."""
    chosen: bool = False
    """Whether it is the configuration that is launched."""
    open: bool = False
    """Whether torch would time it on the device against others, to choose, and there is none (`--target`)."""
    cached: bool = False
    """Whether it was compiled by an earlier run, and `seconds` are what it took then."""
    ir: Mapping[str, Ir] = field(default_factory=dict)
    """Code by stage; kept of the configuration that is launched, or of each where that is open."""


class KernelRefusal(Struct, frozen=True):
    """A configuration of a Triton kernel that cannot be compiled, or does not fit on the GPU; torch leaves it out."""

    graph: str
    stage: Stage
    kernel: str
    configuration: str
    """Such as `XBLOCK=1, num_warps=8, num_stages=1`."""
    reason: str
    """As Triton words it."""


class LaunchTiming(Struct, frozen=True):
    """How long launches of a kernel take, at one place of a graph part."""

    graph: str
    stage: Stage
    kernel: str
    """The same as `Kernel.name`."""
    launch: int
    """Which call of the kernel in the graph part, from 0."""
    seconds: float | None
    """The median; None: not measured."""
    launches: int = 0
    why: str = ""
    """Why it was not measured."""


class Gpu(Struct, frozen=True):
    """The GPU that kernels ran on; bandwidth in bytes a second."""

    name: str
    processors: int
    multiprocessor: Multiprocessor
    clock: float | None = None
    """The most cycles a second; None: not known."""
    bandwidth: float | None = None
    """The most that its memory can do, by its clock and width; None: not known."""
    copied: float | None = None
    """What a large copy reaches, bytes read and written; None: not measured."""
    empty: float | None = None
    """Seconds that a kernel which does nothing takes, measured as all others are."""
    tf32: tuple[str, ...] = ()
    """Libraries that may compute products of float32 with fewer bits: `matmul`, `convolution`."""
    target: str = ""
    """The name of a GPU that is not there: code was emitted for it (`--target`); empty: kernels ran on it."""
    l2: int | None = None
    """Bytes."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Peak operations a second of units for products of matrices, by format, as its maker tells (`gpus/gpu.py`)."""
    vector_rates: Mapping[str, float] = field(default_factory=dict)
    """The same of its ordinary units. Formats that neither names are computed from units and clock (`rates.py`)."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where these facts are from, by field; empty: the driver."""
