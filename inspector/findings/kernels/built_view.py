"""Query the results of `--build` and `--target`: resources of kernels and their limits, times, bounds and code.

Instructions (SASS) come from the tool in the Triton wheel. Starting it takes longer than compiling most kernels
(0.7 s), so it runs only when a view needs them.
"""

import base64
import binascii
import importlib.util
import os
import shutil
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.errors import SelectionError, TargetError, did_you_mean
from ctrace.inspector.facts.built import BINARY, IR_STAGES, Built, Gpu, Ir, LaunchTiming
from ctrace.inspector.facts.kernels import Kernel, Launch, Stage
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.target_facts import Basis
from ctrace.inspector.files.scratch import scratch
from ctrace.inspector.files.writing import write_bytes
from ctrace.inspector.findings.kernels.rates import Occupancy, most_operations, occupancy

NOT_BUILT = "run with --build on a GPU, or with --target"
_SASS = IR_STAGES[-1]
_LONGEST = 64 << 20
"""Maximum size of one stage of code when unpacked, in characters."""


class Resources(Struct, frozen=True):
    """The resources that a compiled kernel uses on a multiprocessor."""

    built: Built
    occupancy: Occupancy | None
    """The occupancy; None if not known."""
    unused: bool = False
    """Whether another configuration of the same kernel is launched instead."""


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

    built: Built
    stage: str
    text: str | None
    unused: bool = False
    """As in `Resources`."""


def resources(session: Session, graph: str | None = None, *, all_of_them: bool = False) -> tuple[Resources, ...]:
    """Return the compiled kernels: only the configurations that torch launches, or every configuration."""
    used = _used(session)
    of_graph = (each for each in session.built if graph in (None, each.graph))
    shown = (each for each in of_graph if all_of_them or each.chosen or _kernel(each) not in used)
    return tuple(Resources(each, _occupancy(session.gpu, each), _is_unused(each, used)) for each in shown)


def _used(session: Session) -> set[tuple[str, Stage, str]]:
    """Return the kernels whose launched configuration is known."""
    return {_kernel(each) for each in session.built if each.chosen}


def _is_unused(built: Built, used: set[tuple[str, Stage, str]]) -> bool:
    return not built.chosen and not built.open and _kernel(built) in used


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
            groups.setdefault((*_kernel(each), each.seconds, each.why), []).append(each)
    total_seconds = sum(each.seconds for same in groups.values() for each in same if each.seconds is not None)
    found = (_time(session.gpu, kernels.get(_kernel(same[0])), same, total_seconds) for same in groups.values())
    return tuple(sorted(found, key=lambda each: -(each.total or 0)))


def _time(gpu: Gpu | None, kernel: Kernel | None, same: list[LaunchTiming], total_seconds: float) -> LaunchTimes:
    timed = same[0]
    total = None if timed.seconds is None else timed.seconds * len(same)
    share = None if total is None or not total_seconds else total / total_seconds
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
    products = kernel.language == "external" or kernel.user or "_tem_" in kernel.name
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
    return tuple(
        StageCode(each, stage, text, _is_unused(each, used)) for each, text in zip(matching, texts, strict=True)
    )


def _full_name(part: str, names: tuple[str, ...], stage: str) -> str:
    """Find the one kernel with a name, or whose name contains it.

    Raises:
        TargetError: no kernel or several kernels match.
    """
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
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(base64.b64decode(ir.text, validate=True), _LONGEST)
    except (zlib.error, binascii.Error, ValueError):
        return None
    return data if unpacking.eof else None


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
    from ctrace.inspector.processes.tools import answer_of

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
    spec = importlib.util.find_spec("triton")
    beside = Path(spec.origin).parent / "backends/nvidia/bin/nvdisasm" if spec and spec.origin else None
    override = os.environ.get("TRITON_NVDISASM_PATH")
    for path in (override, beside, shutil.which("nvdisasm")):
        if path and Path(path).is_file():
            return str(path)
    raise TargetError("--ir sass: nvdisasm is not installed, and kernel binaries need it", _TODO)
