"""Query the results of `--build` and `--target`: resources of kernels and their limits, times, bounds and code.

Instructions (SASS) come from the tool in the Triton wheel. Starting it takes longer than compiling most kernels
(0.7 s), so it runs only when a view needs them.

A bound on a kernel's time follows from the peak rates of arithmetic: operations per cycle and multiprocessor, by
compute capability and number format, times the clock. Sources: NVIDIA's white papers on Volta, Turing, Ampere (GA100
and GA102), Ada and Hopper, checked against the data sheets of T4, V100, A100, A10, L4, L40S and H100; for Blackwell,
the data sheet of HGX B200 and XLA's specification (xla/backends/gpu/target_config/specs/b200.txtpb). Rates are without
sparsity; a multiply-add counts as two operations. The clock is the maximum that the driver reports: an upper bound, not
a typical value.

Occupancy is how many blocks of a kernel fit on a multiprocessor, and what limits them, by the CUDA C++ Programming
Guide, "Compute Capabilities", and the rules of CUDA's calculator (cuda_occupancy.h). It is the theoretical one: how
many blocks run at a time also depends on the size of the grid.
"""

import base64
import binascii
import importlib.util
import os
import shutil
import zlib
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.errors import SelectionError, TargetError, did_you_mean
from ctrace.inspector.facts.built import BINARY, IR_STAGES, Built, Gpu, Ir, LaunchTiming
from ctrace.inspector.facts.kernel_facts import Kernel, Launch, Stage
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.target_gpu import Basis, Multiprocessor
from ctrace.inspector.files.scratch import scratch
from ctrace.inspector.files.writing import write_bytes
from ctrace.inspector.findings.kernels.at_line import source_lines
from ctrace.inspector.knowledge.gpus.gpu_table import FORMATS, TargetGpu

_VECTOR: dict[tuple[int, int], dict[str, int]] = {
    (7, 0): {"float32": 128, "float64": 64},
    (7, 5): {"float32": 128, "float64": 4},
    (8, 0): {"float32": 128, "float64": 64},
    (8, 6): {"float32": 256, "float64": 4},
    (8, 9): {"float32": 256, "float64": 4},
    (9, 0): {"float32": 256, "float64": 128},
    (10, 0): {"float32": 256, "float64": 128},
}
"""Operations per cycle of a multiprocessor's vector units; there, Triton computes shorter formats as float32."""
_MATRIX: dict[tuple[int, int], dict[str, int]] = {
    (7, 0): {"float16": 1024},
    (7, 5): {"float16": 1024},
    (8, 0): {"float16": 2048, "bfloat16": 2048, "tf32": 1024, "float64": 128},
    (8, 6): {"float16": 1024, "bfloat16": 1024, "tf32": 512},
    (8, 9): {"float16": 1024, "bfloat16": 1024, "tf32": 512, "float8": 2048},
    (9, 0): {"float16": 4096, "bfloat16": 4096, "tf32": 2048, "float8": 8192, "float64": 256},
    (10, 0): {"float16": 8192, "bfloat16": 8192, "tf32": 4096, "float8": 16384, "float64": 128},
}
"""Operations per cycle of a multiprocessor's Tensor Cores."""


def most_operations(gpu: Gpu | TargetGpu, dtypes: Iterable[str], *, products: bool, tf32: bool) -> float | None:
    """Return the peak operations per second on values of these formats, or None if not known.

    A value from a data sheet takes precedence over one computed from units and clock. With `products`, Tensor Cores
    count; with `tf32`, they also count for float32.
    """
    found: list[float | None] = []
    for dtype in dtypes:
        if dtype.startswith(("float", "bfloat")):
            found.append(vector_rate(gpu, "float64" if dtype == "float64" else "float32"))
        if products and (format_ := _format(dtype, tf32=tf32)):
            found.append(matrix_rate(gpu, format_))
    # The unknown rate may be the highest, and a bound from a lower one would not hold.
    if None in found:
        return None
    return max((rate for rate in found if rate is not None), default=0) or None


def matrix_rate(gpu: Gpu | TargetGpu, format_: str) -> float | None:
    """Return the peak operations per second of the Tensor Cores; 0 if the GPU has none, None if not known."""
    if format_ in gpu.rates:
        return gpu.rates[format_]
    return _computed(_MATRIX, gpu, format_)


def vector_rate(gpu: Gpu | TargetGpu, format_: str) -> float | None:
    """Return the peak operations per second of the vector units, or None if not known."""
    if format_ in gpu.vector_rates:
        return gpu.vector_rates[format_]
    return _computed(_VECTOR, gpu, format_)


def peaks_by(gpu: Gpu) -> str:
    """Describe where the peak rates come from."""
    if not gpu.rates and not gpu.vector_rates:
        return "its units and clock"
    return "the data sheet, and its units and clock for formats that the sheet omits"


def _computed(units: dict[tuple[int, int], dict[str, int]], gpu: Gpu | TargetGpu, format_: str) -> float | None:
    of_one = units.get(gpu.capability)
    if of_one is None or gpu.clock is None:
        return None
    return of_one.get(format_, 0) * gpu.processors * gpu.clock


def _format(dtype: str, *, tf32: bool) -> str:
    """Return the Tensor Core format for a dtype; empty if they do not support it."""
    if dtype == "float32":
        return "tf32" if tf32 else ""
    if dtype.startswith("float8"):
        return "float8"
    return dtype if dtype in FORMATS else ""


_BLOCKS = {
    (7, 0): 32, (7, 2): 32, (7, 5): 16, (8, 0): 32, (8, 6): 16, (8, 7): 16, (8, 9): 24, (9, 0): 32,
    (10, 0): 32, (10, 3): 32, (12, 0): 24, (12, 1): 24,
}  # fmt: skip
"""Maximum blocks per multiprocessor, by compute capability; torch does not report them."""
_SCHEDULERS = 4
"""Partitions of a multiprocessor, each with a share of the registers (from capability 7.0 on)."""
_REGISTER_UNIT = 256
"""The unit in which registers are allocated to a warp."""
_THREAD_REGISTERS = 255
"""Maximum registers per thread."""


class OccupancyLimit(StrEnum):
    """A resource of which one more block would need too much."""

    REGISTERS = "registers"
    SHARED = "shared memory"
    THREADS = "threads"
    BLOCKS = "blocks"


class Occupancy(Struct, frozen=True):
    """How many blocks of one kernel can be resident on a multiprocessor."""

    JSON: ClassVar[str] = "basis=BASIS blocks warps share limited_by=limits"
    blocks: int
    warps: int
    most_warps: int
    """How many warps of any kernel can be resident at most."""
    limits: tuple[OccupancyLimit, ...]
    """The resources that limit the number of blocks; several if they tie."""
    BASIS: ClassVar[Basis] = Basis.COMPUTED

    @property
    def share(self) -> float:
        """Resident warps divided by the maximum, from 0 to 1."""
        return self.warps / self.most_warps


def occupancy(of: Multiprocessor, *, registers: int, warps: int, shared: int) -> Occupancy | None:
    """Return the occupancy for `registers` per thread, `warps` per block and `shared` bytes per block.

    Return None if the rules for this GPU are not known, or if no kernel can have these numbers.
    """
    most = _BLOCKS.get(of.capability)
    if most is None or not 0 < registers <= _THREAD_REGISTERS or warps < 1 or shared < 0 or of.warp < 1:
        return None
    fit = {
        OccupancyLimit.REGISTERS: _by_registers(of, registers, warps),
        OccupancyLimit.SHARED: of.shared // _shared_of(of.capability, shared),
        OccupancyLimit.THREADS: of.threads // of.warp // warps,
        OccupancyLimit.BLOCKS: most,
    }
    blocks = min(fit.values())
    limits = tuple(limit for limit, number in fit.items() if number == blocks)
    if of.threads >= of.warp:
        return Occupancy(blocks, blocks * warps, of.threads // of.warp, limits)
    return None


def _by_registers(of: Multiprocessor, registers: int, warps: int) -> int:
    a_warp = _rounded_up(registers * of.warp, _REGISTER_UNIT)
    # Each partition gives out its own registers, in whole warps: what is left in each is lost.
    return of.registers // _SCHEDULERS // a_warp * _SCHEDULERS // warps


def _shared_of(capability: tuple[int, int], shared: int) -> int:
    """Return the shared memory that a block occupies: from capability 8.0 on, CUDA reserves 1 KiB per block."""
    # The unit of shared memory is 256 bytes before capability 8.0, and 128 from there on (cuda_occupancy.h).
    return max(_rounded_up(shared + 1024, 128) if capability >= (8, 0) else _rounded_up(shared, 256), 1)


def _rounded_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


NOT_BUILT = "run with --build on a GPU, or with --target"
_SASS = IR_STAGES[-1]
_LONGEST = 64 << 20
"""Maximum size of one stage of code when unpacked, in characters."""


class Resources(Struct, frozen=True):
    """The resources that a compiled kernel uses on a multiprocessor."""

    JSON: ClassVar[str] = (
        "basis=BASIS bases=BASES *built occupancy seconds=built.seconds|null_if_empty cached=built.cached ir"
    )
    BASIS: ClassVar[Basis] = Basis.EMITTED
    BASES: ClassVar[dict[str, Basis]] = {"seconds": Basis.MEASURED}
    built: Built
    occupancy: Occupancy | None
    is_launched: bool = True
    """Whether torch launches this configuration of the kernel, or has not chosen one."""

    @property
    def unused(self) -> bool:
        """Whether another configuration of the same kernel is launched instead."""
        return not self.is_launched and not self.built.open

    @property
    def ir(self) -> tuple[str, ...]:
        """The stages whose code ctrace can show."""
        return stages_of(self.built)


class Bound(Struct, frozen=True):
    """The lower bound on the time of one launch; None if not known."""

    memory: float | None
    """The time to move its bytes at the peak memory bandwidth."""
    arithmetic: float | None
    """The time to compute its operations at the peak rate of the units."""
    peak: float | None = None
    """The peak rate of the units, in operations per second."""

    @property
    def seconds(self) -> float | None:
        """The lower bound: the longer of the two times."""
        return max((each for each in (self.memory, self.arithmetic) if each is not None), default=None)

    @property
    def sets(self) -> str:
        """The limit that sets the bound: `memory` or `arithmetic`; empty if neither is known."""
        if self.seconds is None:
            return ""
        if self.seconds == self.memory:
            return "memory"
        return "arithmetic"


class LaunchTimes(Struct, frozen=True):
    """Launches of one kernel with the same sizes and therefore the same time."""

    JSON: ClassVar[str] = (
        "basis=BASIS bases=BASES graph=timed.graph stage=timed.stage kernel=timed.kernel "
        "launch=timed.launch calls seconds=timed.seconds launches=timed.launches share "
        "memory_bound=bound.memory arithmetic_bound=bound.arithmetic bound_set_by=bound.sets|null_if_empty "
        "reached not_measured=timed.why|null_if_empty"
    )
    timed: LaunchTiming
    """The first launch."""
    calls: int
    total: float | None
    """Seconds of all launches; None if not measured."""
    share: float | None
    """Its share in the time of all measured kernels, from 0 to 1."""
    bound: Bound
    """The bound of one launch."""
    BASIS: ClassVar[Basis] = Basis.MEASURED
    BASES: ClassVar[dict[str, Basis]] = dict.fromkeys(
        ("memory_bound", "arithmetic_bound", "bound_set_by"), Basis.COMPUTED
    )

    @property
    def reached(self) -> float | None:
        """The bound divided by the measured time, at best 1; None if one of them is not known."""
        least, seconds = self.bound.seconds, self.timed.seconds
        if least is None or not seconds:
            return None
        return least / seconds


class StageCode(Struct, frozen=True):
    """One stage of the code of one kernel; `text` is None if the log is damaged there."""

    JSON: ClassVar[str] = (
        "basis=BASIS graph=built.graph stage=built.stage kernel=built.kernel hash=built.hash ir=stage text source_lines"
    )
    BASIS: ClassVar[Basis] = Basis.EMITTED
    built: Built
    stage: str
    text: str | None
    unused: bool = False
    """As in `Resources`."""
    source: str = ""
    """The kernel's source; empty: not in the log."""

    @property
    def source_lines(self) -> tuple[tuple[int, int], ...]:
        """Pairs of a line of the text and the line of the source behind it, both from 1."""
        return source_lines(self.stage, self.text or "", self.source)


def resources(session: Session, graph: str | None = None, *, all_of_them: bool = False) -> tuple[Resources, ...]:
    """Return the compiled kernels: only the configurations that torch launches, or every configuration."""
    used = _used(session)
    of_graph = (each for each in session.built if graph in (None, each.graph))
    found = (Resources(each, _occupancy(session.gpu, each), _is_launched(each, used)) for each in of_graph)
    return tuple(each for each in found if all_of_them or each.is_launched)


def _used(session: Session) -> set[tuple[str, Stage, str]]:
    """Return the kernels whose launched configuration is known."""
    return {_kernel(each) for each in session.built if each.chosen}


def _is_launched(built: Built, used: set[tuple[str, Stage, str]]) -> bool:
    return built.chosen or _kernel(built) not in used


def _kernel(of: Built | LaunchTiming) -> tuple[str, Stage, str]:
    return of.graph, of.stage, of.kernel


def _occupancy(gpu: Gpu | None, built: Built) -> Occupancy | None:
    if gpu is None or built.registers is None or built.shared is None:
        return None
    return occupancy(gpu, registers=built.registers, warps=built.warps, shared=built.shared)


def times(session: Session, graph: str | None = None) -> tuple[LaunchTimes, ...]:
    """Return the timed kernels, slowest first; kernels without a measurement come last."""
    kernels = {(each.graph, each.stage, each.name): each for each in session.kernels}
    groups: dict[tuple[object, ...], list[LaunchTiming]] = {}
    for each in session.timed:
        if graph in (None, each.graph):
            # Launches with equal sizes share one measurement, so equal seconds mean the same one.
            groups.setdefault((*_kernel(each), each.seconds, each.why), []).append(each)
    # Of what was measured: a share of an unknown whole would be a guess.
    total_seconds = sum(each.seconds for same in groups.values() for each in same if each.seconds is not None)
    found = (_time(session.gpu, kernels.get(_kernel(same[0])), same, total_seconds) for same in groups.values())
    return tuple(sorted(found, key=lambda each: -(each.total or 0)))


def _time(gpu: Gpu | None, kernel: Kernel | None, same: list[LaunchTiming], total_seconds: float) -> LaunchTimes:
    timed = same[0]
    total = None if timed.seconds is None else timed.seconds * len(same)
    share = None if total is None or not total_seconds else total / total_seconds
    # A log of an older or a newer ctrace may count launches otherwise.
    launch = kernel.launches[timed.launch] if kernel is not None and 0 <= timed.launch < len(kernel.launches) else None
    return LaunchTimes(timed, len(same), total, share, bound_of(gpu, kernel, launch))


def bound_of(gpu: Gpu | None, kernel: Kernel | None, launch: Launch | None) -> Bound:
    """Return the lower bound for one launch with cold caches; not known for a launch on the CPU."""
    if gpu is None or kernel is None or launch is None or kernel.language == "cpp" or _is_on_cpu(launch):
        return Bound(None, None)
    known = launch.read is not None and launch.written is not None and gpu.bandwidth
    memory = ((launch.read or 0) + (launch.written or 0)) / gpu.bandwidth if known and gpu.bandwidth else None
    most = _most_operations(gpu, kernel, launch) if launch.flops else None
    return Bound(memory, launch.flops / most if most and launch.flops else None, most)


def _is_on_cpu(launch: Launch) -> bool:
    devices = {each.device for each in launch.arguments or () if each.tensor}
    return devices == {"cpu"}


def _most_operations(gpu: Gpu, kernel: Kernel, launch: Launch) -> float | None:
    dtypes = {each.dtype for each in launch.arguments or () if each.tensor}
    # Kernels whose source is not Inductor's may use Tensor Cores, and of its own only those from templates do.
    products = kernel.language == "external" or kernel.user or "_tem_" in kernel.name
    # Torch has two settings for TF32, of cuDNN for convolutions and of cuBLAS for matmuls.
    library = "convolution" if any("convolution" in op for op in launch.ops or kernel.ops) else "matmul"
    return most_operations(gpu, dtypes, products=products, tf32=library in gpu.tf32)


def codes(session: Session, stage: str, kernel: str | None = None, graph: str | None = None) -> tuple[StageCode, ...]:
    """Return the code of one stage, for one kernel or for all, in the order of compilation.

    Raises:
        TargetError: there is no such stage or kernel, or nothing was built.
    """
    graphs = dict.fromkeys(each.graph for each in session.built)
    if session.built and graph is not None and graph not in graphs:
        raise SelectionError("graph", f"{graph}: no Triton kernel of it was built", _near(graph, tuple(graphs)))
    built = [each for each in session.built if graph in (None, each.graph)]
    stages = tuple(dict.fromkeys((*IR_STAGES, *(name for each in built for name in stages_of(each)))))
    if stage not in stages:
        raise SelectionError("ir", f"{stage}: there is no such stage", _near(stage, stages))
    if not built:
        raise SelectionError("ir", f"{stage}: this run built no Triton kernel", NOT_BUILT)
    names = dict.fromkeys(each.kernel for each in built)
    name = None if kernel is None else _full_name(kernel, tuple(names), stage)
    matching = [each for each in built if name in (None, each.kernel) and stage in stages_of(each)]
    if not matching:
        raise SelectionError(
            "ir", f"{stage}: the run has no such code for this kernel", "the run's problems may say why"
        )
    used, texts = _used(session), _texts(matching, stage)
    sources = {(each.graph, each.stage, each.name): each.source for each in session.kernels}
    return tuple(
        StageCode(each, stage, text, not (_is_launched(each, used) or each.open), sources.get(_kernel(each), ""))
        for each, text in zip(matching, texts, strict=True)
    )


def _full_name(part: str, names: tuple[str, ...], stage: str) -> str:
    """Find the one kernel with a name, or whose name contains it.

    Raises:
        TargetError: no kernel or several kernels match.
    """
    # An exact name wins, even where it is part of others.
    hits = [part] if part in names else [name for name in names if part in name]
    if len(hits) == 1:
        return hits[0]
    if hits:
        raise SelectionError(
            "ir", f"{stage}: several kernels have {part} in their names", f"name one: {', '.join(hits[:8])}"
        )
    raise SelectionError("ir", f"{stage}: no kernel {part} was built", _near(part, names))


def stages_of(built: Built) -> tuple[str, ...]:
    """Return the stages whose code ctrace can show; for a binary, the stage of its instructions."""
    return tuple(dict.fromkeys(_SASS if stage == BINARY else stage for stage in built.ir))


def _texts(built: list[Built], stage: str) -> list[str | None]:
    if stage != _SASS:
        return [text_of(each.ir[stage]) for each in built]
    # By hash, since equal kernels of several graphs have one binary, and each start of the tool takes 0.7 s.
    binaries = {each.hash: _unpacked(each.ir[BINARY]) for each in built if _SASS not in each.ir}
    known = [hash_ for hash_, binary in binaries.items() if binary is not None]
    read = dict(zip(known, disassembled([binaries[hash_] or b"" for hash_ in known]) if known else (), strict=True))
    return [text_of(each.ir[_SASS]) if _SASS in each.ir else read.get(each.hash) for each in built]


def _near(name: str, known: Iterable[str]) -> str:
    return did_you_mean(name, known, f"there are: {', '.join(known)}")


def text_of(ir: Ir) -> str | None:
    """Unpack code; return None if it is damaged or too long."""
    if not ir.packed:
        return ir.text
    data = _unpacked(ir)
    if data is None:
        return None
    return data.decode("utf-8", "replace")


def _unpacked(ir: Ir) -> bytes | None:
    try:
        # With a limit: a few bytes of a damaged or foreign log may unpack to any size.
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(base64.b64decode(ir.text, validate=True), _LONGEST)
    except (zlib.error, binascii.Error, ValueError):
        return None
    # Data that is cut off has no end mark, and neither has what is longer than the limit.
    return data if unpacking.eof else None


# Chosen: a tool that hangs must not stop the command.
_SECONDS = 60
_TODO = "pip install triton, which includes nvdisasm"


def disassembled(binaries: Iterable[bytes]) -> tuple[str, ...]:
    """Return the instructions in each binary.

    Raises:
        TargetError: nvdisasm is missing, or it fails on one of them.
    """
    from concurrent.futures import ThreadPoolExecutor  # slow to import

    tool = _tool()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            return tuple(pool.map(lambda binary: _disassembled(tool, binary), binaries))
        except BaseException:  # such as a KeyboardInterrupt: cancel the jobs that have not started
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _disassembled(tool: str, binary: bytes) -> str:
    from ctrace.inspector.processes.spawned import answer_of

    with scratch() as folder:
        file = folder / "kernel.cubin"
        write_bytes(file, binary)
        try:
            answer = answer_of([tool, "-c", str(file)], _SECONDS)
        except OSError as error:
            raise TargetError(f"nvdisasm cannot read a kernel of this run: {error}", _TODO) from error
    if answer.status:
        raise TargetError(f"nvdisasm cannot read a kernel of this run: {answer.last_line}", _TODO)
    return answer.text


def _tool() -> str:
    """Find nvdisasm where Triton looks for it (triton/knobs.py), by the environment or in its folder; do not import
    Triton.
    """
    # Importing Triton would load its compiler, and finding it needs only its folder.
    spec = importlib.util.find_spec("triton")
    beside = Path(spec.origin).parent / "backends/nvidia/bin/nvdisasm" if spec and spec.origin else None
    override = os.environ.get("TRITON_NVDISASM_PATH")
    for path in (override, beside, shutil.which("nvdisasm")):
        if path and Path(path).is_file():
            return str(path)
    raise TargetError("--ir sass: nvdisasm is not installed, and kernel binaries need it", _TODO)
