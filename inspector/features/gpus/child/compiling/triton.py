"""Compile all configurations of one of Inductor's Triton kernels for the target GPU, as torch would.

`CachingAutotuner.precompile` runs completely (2.11 to 2.13, _inductor/runtime/triton_heuristics.py): it sets options
and signature, drops configurations that do not fit, and adds configurations that it derives from the register counts of
others. Only loading is skipped: register counts come from the binary, and limits from the target's facts. Call this in
a fork: its patches are not undone.
"""

import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from ctrace.inspector.capture.built_kernels.cubin import resources
from ctrace.inspector.capture.built_kernels.triton_builds import TritonBuilds
from ctrace.inspector.capture.core.part import Part
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.facts.built import Built, KernelCode
from ctrace.inspector.facts.events.run import ProblemMet
from ctrace.inspector.facts.kernels import Stage
from ctrace.inspector.facts.wire import Record
from ctrace.inspector.features.gpus.child.compiling.cache import Outcome
from ctrace.inspector.knowledge.gpus.gpu import TargetGpu
from ctrace.inspector.knowledge.versions.names import LIBDEVICE_PATH

_R = TypeVar("_R", bound=Record)
_TENSOR_MEMORY = 512
"""Columns of tensor memory, if any (triton/compiler/compiler.py, 3.6, 3.7: `CompiledKernel._init_handles`)."""


class TritonCompiler:
    """Compiles kernels in this process; its patches leave the process unusable for anything else."""

    def __init__(self, gpu: TargetGpu, folder: Path) -> None:
        from torch._inductor.runtime import compile_tasks

        self._gpu = gpu
        # Do not touch the user's caches.
        os.environ["TRITON_CACHE_DIR"] = str(folder / "triton")
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
        os.environ.pop("TRITON_INTERPRET", None)
        for name in ("_set_triton_ptxas_path", LIBDEVICE_PATH.of(compile_tasks)):
            if name is not None:
                getattr(compile_tasks, name, _nothing)()
        self._replace()

    def compile(self, name: str, source: str) -> Outcome:
        """Compile a kernel, and return what it gave."""
        gathered = _Gathered()
        self._builds = TritonBuilds(Recorder(gathered), on_device=False)  # type: ignore[arg-type]
        self._loaded: list[Any] = []
        self._refused: dict[str, str] = {}
        error = ""
        try:
            kernel = _kernel(name, source)
            kernel.precompile()
            for result in self._loaded:
                self._builds.compiled(kernel, result)
            self._builds.belongs(kernel, Part({}, Stage.FORWARD))
        except Exception as raised:  # Triton and torch's heuristics may raise anything
            error = _reason(raised)
        problems = tuple(each.what for each in gathered.of(ProblemMet))
        return Outcome(gathered.of(Built), gathered.of(KernelCode), self._refused, problems, error)

    def _replace(self) -> None:
        from torch._dynamo import device_interface
        from torch._inductor.runtime import triton_heuristics
        from triton import knobs

        devices: Any = device_interface
        heuristics: Any = triton_heuristics
        devices.DeviceGuard = _no_guard
        heuristics.StaticTritonCompileResult.can_statically_launch = staticmethod(lambda *_args: None)
        heuristics.TritonCompileResult.make_launcher = lambda result: self._launcher_of(result)
        heuristics.CachingAutotuner._precompile_config = self._precompiling(heuristics)
        # The autotune cache stores the best configuration of an earlier run on a GPU; opening it takes a second.
        heuristics.AutotuneCache.create = staticmethod(_nothing)
        heuristics.log.disabled = True  # it prints what ctrace records
        knobs.compilation.listener = lambda **facts: self._builds.listen(
            **{key: facts[key] for key in ("metadata", "metadata_group", "times", "cache_hit")}
        )

    def _precompiling(self, heuristics: Any) -> Any:
        original = heuristics.CachingAutotuner._precompile_config

        def precompile_config(kernel: Any, config: Any) -> Any:
            try:
                return original(kernel, config)
            except Exception as raised:
                self._refused[configuration_of(config)] = _reason(raised)
                raise

        return precompile_config

    def _launcher_of(self, result: Any) -> Any:
        """Check that a compiled configuration could be loaded, and return a launcher that only names it.

        Torch makes all launchers again after it adds a configuration, so check each result only once.
        """
        if result not in self._loaded:
            try:
                self._load(result.kernel)
            except Exception as raised:
                self._refused[configuration_of(result.config)] = _reason(raised)
                raise
            self._loaded.append(result)
        return SimpleNamespace(config=result.config)

    def _load(self, binary: Any) -> None:
        """Check a binary as loading would, and set the attributes that loading sets.

        Raises:
            OutOfResources: the binary exceeds a limit of the GPU; the caller drops its configuration.
        """
        limits = {
            "shared memory": (binary.metadata.shared, self._gpu.shared_per_block_optin),
            "tensor memory": (getattr(binary.metadata, "tmem_size", None) or 0, _TENSOR_MEMORY),
            "threads": (binary.metadata.num_warps * self._gpu.warp, self._gpu.threads_per_block),
        }
        from triton.runtime.errors import OutOfResources

        for name, (required, limit) in limits.items():
            if required > limit:
                raise OutOfResources(required, limit, name)
        found = resources(binary.kernel)
        binary.n_regs, binary.n_spills = found.get("registers"), found.get("spills")
        binary.shared = binary.metadata.shared


def _nothing(*_args: Any) -> None:
    """Replace a function that must have no effect."""


def _no_guard(*_args: Any) -> Any:
    """Replace torch's context manager that selects a device."""
    return nullcontext()


class _Gathered:
    """Replaces the log: collects the records to write for each graph part that calls the kernel."""

    def __init__(self) -> None:
        self._records: list[Record] = []

    def add(self, record: Record, _context: Any = None) -> None:
        self._records.append(record)

    def of(self, kind: type[_R]) -> tuple[_R, ...]:
        return tuple(each for each in self._records if isinstance(each, kind))


def _kernel(name: str, source: str) -> Any:
    from torch._inductor.codecache import PyCodeCache

    return getattr(PyCodeCache.load(source), name)


def configuration_of(config: Any) -> str:
    """Return a description of a Triton configuration."""
    values = {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"[:500]
