"""Compiled kernels of a run with `--build` or `--target`: how each was compiled, and how long a launch takes."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import Meta, Struct, field

from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.target_gpu import Multiprocessor
from ctrace.inspector.facts.wire import Integer, Number, OfGraph, Record

IR_STAGES = ("ttir", "ttgir", "llir", "ptx", "sass")
"""Triton's stages of a kernel for an NVIDIA GPU, in compile order; the last is disassembled from the binary."""
BINARY = "cubin"
"""The binary stage; with `--target`, the log keeps the binary, and views disassemble it on demand."""


class Ir(Struct, frozen=True):
    """One stage of a kernel's code, as the log keeps it."""

    text: str
    packed: bool = False
    """Whether `text` is compressed by zlib and encoded in base64, as long code and binaries are."""


class StageTime(Struct, frozen=True):
    """How long one stage of a compilation took."""

    stage: str
    seconds: Number


class Built(OfGraph, frozen=True, omit_defaults=True):
    """A Triton kernel of one graph part, compiled with one configuration."""

    JSON: ClassVar[str] = (
        "graph stage kernel hash chosen open warps stages blocks registers spills shared register_limit"
    )
    KIND: ClassVar[str] = "built"
    stage: Stage
    kernel: str
    """The same as `Kernel.name`."""
    hash: str
    """Triton's hash of the source, the configuration and the target."""
    warps: Integer
    """Warps per block."""
    stages: Integer
    """Stages of software pipelining."""
    chosen: bool
    """Whether torch launches this configuration."""
    blocks: Mapping[str, Integer] = field(default_factory=dict)
    """Sizes that the configuration sets, such as `XBLOCK`."""
    # By the titles, a comparison of two runs finds these fields and names them; see `wire.titled`.
    registers: Annotated[Integer | None, Meta(title="registers")] = None
    """Registers per thread; None: not known, because the kernel was never loaded."""
    spills: Annotated[Integer | None, Meta(title="spilled registers")] = None
    """Spilled registers per thread, as Triton counts them: 32-bit words of local memory."""
    shared: Annotated[Integer | None, Meta(title="shared bytes")] = None
    """Shared memory per block, in bytes."""
    register_limit: Annotated[Integer | None, Meta(title="registers allowed")] = None
    """How many registers per thread the configuration allows (`maxnreg`); what needs more spills. None: no limit."""
    stage_times: tuple[StageTime, ...] = field(default=(), name="seconds")
    open: bool = False
    """Whether torch would time it against other configurations if it had the device (`--target`)."""
    cached: bool = False
    """Whether an earlier run compiled it; then `seconds` are from that run."""
    ir: Mapping[str, Ir] = field(default_factory=dict)
    """Code, keyed by stage, from records of its own (`KernelCode`); only for the configuration that torch launches, or
    for each one if torch has not chosen.
    """

    @property
    def seconds(self) -> dict[str, float]:
        """Compile time of each stage, in order; empty for a kernel from a cache or another process, which is not
        timed.
        """
        return {each.stage: each.seconds for each in self.stage_times}


class KernelChosen(OfGraph, frozen=True):
    """Torch chose one of several configurations of a kernel."""

    KIND: ClassVar[str] = "built_chosen"
    stage: Stage
    kernel: str
    hash: str


class KernelCode(Record, frozen=True):
    """The code of a compiled kernel, by stage."""

    KIND: ClassVar[str] = "built_code"
    hash: str
    texts: Mapping[str, str]
    packed: Mapping[str, str]
    """The stages whose code is compressed; see `Ir`."""

    @property
    def ir(self) -> dict[str, Ir]:
        """Return the code of each stage."""
        plain = {stage: Ir(text) for stage, text in self.texts.items()}
        return plain | {stage: Ir(text, packed=True) for stage, text in self.packed.items()}


class KernelRefusal(OfGraph, frozen=True):
    """A configuration of a Triton kernel that torch leaves out: it does not compile, or does not fit on the GPU."""

    JSON: ClassVar[str] = "graph stage kernel configuration reason"
    KIND: ClassVar[str] = "refused"
    stage: Stage
    kernel: str
    configuration: str
    """Such as `XBLOCK=1, num_warps=8, num_stages=1`."""
    reason: str
    """Triton's message."""


class LaunchTiming(OfGraph, frozen=True):
    """How long one call of a kernel in a graph part takes."""

    KIND: ClassVar[str] = "launch_timed"
    stage: Stage
    kernel: str
    """The same as `Kernel.name`."""
    launch: Integer
    """Which call of the kernel in the graph part, from 0."""
    launches: Integer
    seconds: Number | None = None
    """The median; None: not measured."""
    why: str = ""
    """Why it was not measured."""


BuiltEvent = Built | KernelChosen | KernelCode | LaunchTiming
"""Records about kernels that were built and launched."""


class Gpu(Multiprocessor, frozen=True, kw_only=True):
    """The GPU that kernels ran on, or the target GPU (`--target`); bandwidths in bytes per second.

    The limits are those of each of its multiprocessors.
    """

    JSON: ClassVar[str] = (
        "name target|null_if_empty capability|dotted processors clock bandwidth l2 rates vector_rates "
        "sources copied empty tf32"
    )
    KIND: ClassVar[str] = "gpu"
    name: str
    processors: Integer
    clock: Number | None = None
    """Maximum cycles per second; None: not known."""
    bandwidth: Number | None = None
    """Maximum memory bandwidth, computed from clock and bus width; None: not known."""
    copied: Number | None = None
    """Bandwidth of a large copy, counting bytes read and written; None: not measured."""
    empty: Number | None = None
    """Seconds that an empty kernel takes, measured in the same way as other kernels."""
    tf32: tuple[str, ...]
    """Library ops that may compute float32 in TF32: `matmul`, `convolution`."""
    target: str = ""
    """The name of the target GPU (`--target`); empty: kernels ran on this GPU."""
    l2: Integer | None = None
    """Bytes of the L2 cache."""
    rates: Mapping[str, Number] = field(default_factory=dict)
    """Peak operations per second of the Tensor Cores, keyed by format, from the data sheet (`gpus/gpu_table.py`)."""
    vector_rates: Mapping[str, Number] = field(default_factory=dict)
    """The same for the vector units. If neither table has a format, ctrace computes its rate."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """The source of each fact, keyed by field; empty: all facts are from the driver."""
