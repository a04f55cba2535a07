"""Compile one of Inductor's Triton kernels for a GPU that is not there, all its configurations, as torch would.

`CachingAutotuner.precompile` goes its whole way (2.11 to 2.13, _inductor/runtime/triton_heuristics.py): options and
signature are Inductor's, configurations that do not fit are left out, and those are added that it derives from the
registers of others. Only loading is left out: registers are read from the binary, limits from the target's facts.
To be called in a fork: what is replaced here is not put back.
"""

import logging
import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ctrace.inspector.capture.cubin import resources
from ctrace.inspector.capture.graphparts import Part
from ctrace.inspector.capture.recorder import Recorder
from ctrace.inspector.capture.tritonbuilds import TritonBuilds
from ctrace.inspector.capture.virtual.compilecache import Outcome
from ctrace.inspector.gpus.gpu import TargetGpu

_TENSOR_MEMORY = 512
"""Columns, of every GPU that has it (triton/compiler/compiler.py, 3.6 and 3.7: `CompiledKernel._init_handles`)."""


class TritonCompiler:
    """Compiles kernels in this process, which is from then on good for nothing else."""

    def __init__(self, gpu: TargetGpu, folder: Path) -> None:
        from torch._inductor.runtime.compile_tasks import _set_triton_ptxas_path

        self._gpu = gpu
        # The user's caches stay as they are, and tell nothing: torch keeps there which configuration was best.
        os.environ["TRITON_CACHE_DIR"] = str(folder / "triton")
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
        _set_triton_ptxas_path()
        self._replace()

    def compile(self, name: str, source: str) -> Outcome:
        """Compile a kernel: give `records` as they are for every graph part that calls it, `refused` and `error`."""
        records: list[list[Any]] = []
        recorder = Recorder(_Gathered(records))  # type: ignore[arg-type]
        self._builds = TritonBuilds(recorder, on_device=False)
        self._refused: list[dict[str, str]] = []
        error = ""
        try:
            kernel = _loaded(name, source)
            kernel.precompile()
            self._builds.belongs(kernel, Part({}, ""))
        except Exception as raised:  # whatever Triton or a heuristic of torch's raises
            error = _reason(raised)
        return {"records": records, "refused": self._refused, "error": error}

    def _replace(self) -> None:
        from torch._dynamo import device_interface
        from torch._inductor.runtime import triton_heuristics as heuristics
        from triton import knobs

        device_interface.DeviceGuard = _no_guard  # type: ignore[assignment,misc]
        heuristics.StaticTritonCompileResult.can_statically_launch = staticmethod(lambda *_args: None)  # type: ignore[assignment]
        heuristics.TritonCompileResult.make_launcher = self._make_launcher  # type: ignore[method-assign]
        heuristics.CachingAutotuner._precompile_config = self._precompiling(heuristics)  # type: ignore[method-assign]
        heuristics.log.disabled = True  # it prints what we record
        logging.getLogger("torch._inductor.runtime.triton_heuristics").disabled = True
        knobs.compilation.listener = lambda **told: self._builds.listen(
            **{key: told[key] for key in ("metadata", "metadata_group", "times", "cache_hit")}
        )

    def _precompiling(self, heuristics: Any) -> Any:
        original = heuristics.CachingAutotuner._precompile_config

        def precompile_config(kernel: Any, config: Any) -> Any:
            try:
                result = original(kernel, config)
                self._load(result.kernel)
            except Exception as raised:
                self._refused.append({"configuration": configuration_of(config), "reason": _reason(raised)})
                raise
            self._builds.compiled(kernel, result)
            return result

        return precompile_config

    def _load(self, binary: Any) -> None:
        """Check and learn what loading would; a configuration that does not fit is left out by who compiles."""
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

    @staticmethod
    def _make_launcher(result: Any) -> Any:
        return SimpleNamespace(config=result.config)


def _no_guard(*_args: Any) -> Any:
    """Stand in for a context manager that is about a device."""
    return nullcontext()


class _Gathered:
    """Stands in for the log: keeps records to be written for each graph part that calls the kernel."""

    def __init__(self, records: list[list[Any]]) -> None:
        self._records = records

    def artifact(self, name: str, payload: Any, _context: Any = None) -> None:
        self._records.append([name, payload])


def _loaded(name: str, source: str) -> Any:
    from torch._inductor.codecache import PyCodeCache

    return getattr(PyCodeCache.load(source), name)


def configuration_of(config: Any) -> str:
    """Name a configuration of Triton's."""
    values = {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"[:500]
