"""Measure the peak memory of a call's tensors."""

import gc
from typing import Any

from ctrace.inspector.capture.isolation.profiled_memory import cpu_peak
from ctrace.inspector.capture.timing.timed_rounds import Bench


def peak_of(bench: Bench, side: int) -> int | None:
    """Return the bytes allocated at a call's peak, minus those allocated before the call, or None if unknown."""
    import torch

    gc.collect()
    calls = bench.calls(1)
    if bench.device == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        bench.run(side, calls)
        torch.cuda.synchronize()
        return int(torch.cuda.max_memory_allocated() - before)
    return cpu_peak(lambda: bench.run(side, calls))


def pool_bytes() -> int | None:
    """Return the bytes in private memory pools, which CUDA graphs own, or None if no GPU is used."""
    import torch

    if not torch.cuda.is_initialized():
        return None
    segments: list[dict[str, Any]] = torch.cuda.memory_snapshot()
    return sum(int(each["total_size"]) for each in segments if tuple(each.get("segment_pool_id", (0, 0))) != (0, 0))
