"""Compiled kernels of a run with `--build` or `--target`: how each was compiled, and how long a launch takes."""

from collections.abc import Mapping

from msgspec import Struct, field

from ctrace.inspector.facts.kernels import Stage
from ctrace.inspector.facts.target import Multiprocessor

IR_STAGES = ("ttir", "ttgir", "llir", "ptx", "sass")
"""Triton's stages of a kernel for an NVIDIA GPU, in compile order; the last is disassembled from the binary."""
BINARY = "cubin"
"""The binary stage; with `--target`, the log keeps the binary, and views disassemble it on demand."""


class Ir(Struct, frozen=True):
    """One stage of a kernel's code, as the log keeps it."""

    text: str
    packed: bool = False
    """Whether `text` is compressed by zlib and encoded in base64, as long code and binaries are."""


class Built(Struct, frozen=True):
    """A Triton kernel of one graph part, compiled with one configuration."""

    graph: str
    stage: Stage
    kernel: str
    """The same as `Kernel.name`."""
    hash: str
    """Triton's hash of the source, the configuration and the target."""
    warps: int
    """Warps per block."""
    stages: int
    """Stages of software pipelining."""
    blocks: Mapping[str, int] = field(default_factory=dict)
    """Sizes that the configuration sets, such as `XBLOCK`."""
    registers: int | None = None
    """Registers per thread; None: not known, because the kernel was never loaded."""
    spills: int | None = None
    """Spilled registers per thread, as Triton counts them: 32-bit words of local memory."""
    shared: int | None = None
    """Shared memory per block, in bytes."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Compile time of each stage, in order; empty for a kernel from a cache or another process, which is not timed."""
    chosen: bool = False
    """Whether torch launches this configuration."""
    open: bool = False
    """Whether torch would time it against other configurations if it had the device (`--target`)."""
    cached: bool = False
    """Whether an earlier run compiled it; then `seconds` are from that run."""
    ir: Mapping[str, Ir] = field(default_factory=dict)
    """Code, keyed by stage; only for the configuration that torch launches, or for each one if torch has not chosen."""


class KernelRefusal(Struct, frozen=True):
    """A configuration of a Triton kernel that torch leaves out: it does not compile, or does not fit on the GPU."""

    graph: str
    stage: Stage
    kernel: str
    configuration: str
    """Such as `XBLOCK=1, num_warps=8, num_stages=1`."""
    reason: str
    """Triton's message."""


class LaunchTiming(Struct, frozen=True):
    """How long one call of a kernel in a graph part takes."""

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
    """The GPU that kernels ran on, or the target GPU (`--target`); bandwidths in bytes per second."""

    name: str
    processors: int
    multiprocessor: Multiprocessor
    clock: float | None = None
    """Maximum cycles per second; None: not known."""
    bandwidth: float | None = None
    """Maximum memory bandwidth, computed from clock and bus width; None: not known."""
    copied: float | None = None
    """Bandwidth of a large copy, counting bytes read and written; None: not measured."""
    empty: float | None = None
    """Seconds that an empty kernel takes, measured in the same way as other kernels."""
    tf32: tuple[str, ...] = ()
    """Library ops that may compute float32 in TF32: `matmul`, `convolution`."""
    target: str = ""
    """The name of the target GPU (`--target`); empty: kernels ran on this GPU."""
    l2: int | None = None
    """Bytes of the L2 cache."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Peak operations per second of the Tensor Cores, keyed by format, from the data sheet (`gpus/gpu.py`)."""
    vector_rates: Mapping[str, float] = field(default_factory=dict)
    """The same for the vector units. If neither table has a format, `kernels/rates.py` computes its rate."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """The source of each fact, keyed by field; empty: all facts are from the driver."""
