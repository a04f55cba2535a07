"""Measure the peak of a step that runs built kernels: by the allocator of a GPU, or by torch's profiler on the CPU."""

import gc
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from ctrace.inspector.capture.isolation.profiled_memory import cpu_peak


class MeasuredPeak(Struct, frozen=True):
    """The peak of a step, and what no tensor of it holds."""

    bytes: int
    others: int = 0
    """What is allocated before the step beyond the tensors that the ledger has, such as the workspace of cuBLAS."""
    pools: int = 0
    """What lies in the private pools of CUDA graphs."""


def measured_peak(run: Callable[[], None], device: str, before: int) -> MeasuredPeak | None:
    """Measure a step; None: nothing measures it.

    Args:
        run: takes the step.
        device: the type of device that counts.
        before: what is alive before the step, as the ledger has it.
    """
    import torch

    gc.collect()
    if device != "cuda":
        grown = cpu_peak(run)
        return None if grown is None else MeasuredPeak(before + grown)
    torch.cuda.synchronize()
    others = max(int(torch.cuda.memory_allocated()) - before, 0)
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    return MeasuredPeak(int(torch.cuda.max_memory_allocated()), others, _pool_bytes())


def _pool_bytes() -> int:
    import torch

    segments: list[dict[str, Any]] = torch.cuda.memory_snapshot()
    return sum(int(each["total_size"]) for each in segments if tuple(each.get("segment_pool_id", (0, 0))) != (0, 0))
