"""Record every Triton kernel that Inductor compiles (`TritonBuilds`): configurations, resources, code, compile times.

Triton notifies a listener of each compilation (triton/knobs.py, 3.6 and 3.7: `CompilationListener`). Inductor's
`CachingAutotuner` holds the compiled kernels (torch/_inductor/runtime/triton_heuristics.py, 2.11 to 2.13). Triton's
hash of a kernel is known to both. The tools in the triton wheel read a compiled GPU kernel, without a GPU
(`disassembled`, `resources`).
"""

import base64
import re
import subprocess
import tempfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Struct

from ctrace.inspector.capture.core.part import PartIdentity
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.facts.built import Built, KernelChosen, KernelCode, StageTime
from ctrace.inspector.facts.kernel_facts import Stage

# Chosen: a tool that hangs must not stop the run.
_SECONDS = 30
_REGISTERS = re.compile(r"\bREG:(\d+)")
_STACK = re.compile(r"\bSTACK:(\d+)")
_SHARED = re.compile(r"\bSHARED:(\d+)")


def disassembled(cubin: bytes) -> str:
    """Return the instructions of a binary (SASS).

    Raises:
        OSError, subprocess.SubprocessError: there is no nvdisasm, or it failed.
    """
    return _run("nvdisasm", ["-c"], cubin)


def resources(cubin: bytes) -> dict[str, int]:
    """Return `registers` per thread, `spills` (32-bit words on its stack) and static `shared` bytes, if known.

    Raises:
        OSError, subprocess.SubprocessError: there is no cuobjdump, or it failed.
    """
    output = _run("cuobjdump", ["--dump-resource-usage"], cubin)
    found = {"registers": _REGISTERS.search(output), "spills": _STACK.search(output), "shared": _SHARED.search(output)}
    numbers = {name: int(match[1]) for name, match in found.items() if match}
    # Triton counts spills in words of 32 bits, as it does for a loaded kernel (`n_spills`); cuobjdump prints bytes.
    return {name: number // 4 if name == "spills" else number for name, number in numbers.items()}


def _run(name: str, arguments: list[str], cubin: bytes) -> str:
    with tempfile.TemporaryDirectory(prefix="ctrace-") as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        command = [_tool(name), *arguments, str(file)]
        return subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True).stdout


def _tool(name: str) -> str:
    """Find a tool as Triton does: from the environment, or beside Triton (triton/knobs.py, 3.4 to 3.7)."""
    from triton import knobs

    return str(getattr(knobs.nvidia, name).path)


_TEXTS = ("ttir", "ttgir", "llir", "ptx", "amdgcn")
_BINARY = "cubin"
_PACKED_FROM = 4096
"""In characters: shorter code stays readable in the log, and longer code is compressed to about an eighth."""


class _Compilation(Struct, frozen=True):
    """Triton's report of one compilation: the time of each stage (none for a cache hit), and the code by format."""

    metadata: dict[str, Any]
    stage_times: tuple[StageTime, ...]
    code: dict[str, bytes]


class TritonBuilds:
    """Collects compiled kernels, and records those that belong to a graph part."""

    def __init__(self, recorder: Recorder, *, on_device: bool = True) -> None:
        """Without `on_device`, keep the code of all configurations, because no launch chooses one."""
        self._recorder = recorder
        self._on_device = on_device
        self._compilations: dict[str, _Compilation] = {}
        self._results: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()
        self._parts: WeakKeyDictionary[Any, list[PartIdentity]] = WeakKeyDictionary()
        self._recorded: set[tuple[str, ...]] = set()
        self._kept: set[str] = set()

    def listen(self, *, metadata: dict[str, Any], metadata_group: dict[str, str], times: Any, cache_hit: bool) -> None:
        """Store Triton's report; read the code now, because its files may disappear."""
        hash_ = str(metadata["hash"])
        if cache_hit and hash_ in self._compilations:  # from this run's cache: already measured
            return
        stages = []
        if not cache_hit:
            stages = [("source", times.ir_initialization), *times.lowering_stages]
        times_taken = tuple(StageTime(str(stage), micro / 1e6) for stage, micro in stages)
        self._compilations[hash_] = _Compilation(dict(metadata), times_taken, _code(metadata_group))

    def compiled(self, kernel: Any, result: Any) -> None:
        """Store what an autotuner compiled for one configuration."""
        self._results.setdefault(kernel, []).append(result)

    def belongs(self, kernel: Any, part: PartIdentity) -> None:
        """Record the compiled versions of a kernel that a graph part calls."""
        parts = self._parts.setdefault(kernel, [])
        if part not in parts:
            parts.append(part)
        # A kernel that was compiled elsewhere, such as in a worker, comes with results and passes no
        # `_precompile_config`.
        results = self._results.get(kernel) or list(kernel.compile_results)
        self._record(kernel, part, results, only=len(results) == 1)
        if len(results) == 1 or not self._on_device:
            for result in results:
                self._keep(_hash(result))

    def launched(self, kernel: Any) -> None:
        """Record which configuration of a kernel is launched."""
        # After the first launch, the autotuner has kept the launcher of the best configuration alone.
        (launcher,) = kernel.launchers
        results = self._results.get(kernel) or list(kernel.compile_results)
        chosen = next((each for each in results if each.config is launcher.config), None)
        # The code of a single configuration is recorded when the kernel is compiled.
        if chosen is None or len(results) == 1:
            return
        for part in self._parts.get(kernel, ()):
            self._record(kernel, part, results, only=False)
            part.add(self._recorder, KernelChosen(part.stage, name_of(kernel), _hash(chosen)))
        self._keep(_hash(chosen))

    def parts_of(self, kernel: Any) -> tuple[PartIdentity, ...]:
        """Return the graph parts that call a kernel."""
        return tuple(self._parts.get(kernel, ()))

    def _record(self, kernel: Any, part: PartIdentity, results: Iterable[Any], *, only: bool) -> None:
        for result in results:
            built = self._describe(kernel, part.stage, result, only=only)
            key = (*map(str, part.context.values()), part.stage, built.kernel, built.hash)
            if key not in self._recorded:
                # Equal kernels of several parts share one autotuner; each part gets its record once.
                self._recorded.add(key)
                part.add(self._recorder, built)

    def _describe(self, kernel: Any, stage: Stage, result: Any, *, only: bool) -> Built:
        config, compiled = result.config, result.kernel
        build = self._compilations.get(_hash(result))
        metadata = {}
        if build:
            metadata = build.metadata
        registers, spills = getattr(compiled, "n_regs", None), getattr(compiled, "n_spills", None)
        # Triton reads both from the driver when it loads the kernel onto a GPU; the binary tells the same.
        if registers is None and build is not None and _BINARY in build.code:  # not loaded yet
            read = resources(build.code[_BINARY])
            registers, spills = read.get("registers"), read.get("spills", spills)
        return Built(
            stage=stage,
            kernel=name_of(kernel),
            hash=_hash(result),
            # What Triton compiled with wins over what Inductor asked for; without its report, the latter is all that is
            # known.
            warps=int(metadata.get("num_warps", config.num_warps)),
            stages=int(metadata.get("num_stages", config.num_stages)),
            chosen=only,
            blocks={str(name): value for name, value in config.kwargs.items() if type(value) is int},
            registers=registers,
            spills=spills,
            shared=metadata.get("shared", getattr(compiled, "shared", None)),
            register_limit=metadata.get("maxnreg"),  # an option of Triton 3.6 and 3.7 (backends/nvidia/compiler.py)
            stage_times=build.stage_times if build else (),
        )

    def _keep(self, hash_: str) -> None:
        """Record the code of a compiled kernel, once."""
        build = self._compilations.get(hash_)
        if build is None or hash_ in self._kept:
            return
        self._kept.add(hash_)
        texts = {stage: text.decode("utf-8", "replace") for stage, text in build.code.items() if stage != _BINARY}
        binary = build.code.get(_BINARY)
        with self._recorder.watching("the machine code of a kernel"):
            if binary is not None and self._on_device:
                texts["sass"] = disassembled(binary)
        packed = {stage: _packed(text.encode()) for stage, text in texts.items() if len(text) >= _PACKED_FROM}
        plain = {stage: text for stage, text in texts.items() if stage not in packed}
        if binary is not None and not self._on_device:  # disassembling takes longer than compiling
            packed[_BINARY] = _packed(binary)
        self._recorder.add(KernelCode(hash_, plain, packed))


def name_of(kernel: Any) -> str:
    """Return the wrapper's name for an autotuner's kernel."""
    return str(kernel.inductor_meta.get("kernel_name") or kernel.fn.__name__)


def _hash(result: Any) -> str:
    return str(result.kernel.hash)


def _code(files: dict[str, str]) -> dict[str, bytes]:
    found = {}
    for name, file in files.items():
        stage = name.rpartition(".")[2]
        if stage in (*_TEXTS, _BINARY):
            found[stage] = Path(file).read_bytes()
    return found


def _packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 6)).decode("ascii")
