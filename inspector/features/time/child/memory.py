"""Measure the peak memory of a call's tensors."""

import gc
from typing import Any

from ctrace.inspector.capture.timing.rounds import Bench


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
    return _on_cpu(bench, side, calls)


def _on_cpu(bench: Bench, side: int, calls: Any) -> int | None:
    """Add up the allocations that the profiler records, because torch does not count the CPU's memory."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        bench.run(side, calls)
    kineto = profiled.profiler.kineto_results if profiled.profiler is not None else None
    if kineto is None:
        return None
    changes = [(event.start_ns(), event.nbytes()) for event in kineto.events() if event.name() == "[memory]"]
    now = most = 0
    for _, size in sorted(changes, key=lambda change: change[0]):
        now += size
        most = max(most, now)
    return most


def pool_bytes() -> int | None:
    """Return the bytes in private memory pools, which CUDA graphs own, or None if no GPU is used."""
    import torch

    if not torch.cuda.is_initialized():
        return None
    segments: list[dict[str, Any]] = torch.cuda.memory_snapshot()
    return sum(int(each["total_size"]) for each in segments if tuple(each.get("segment_pool_id", (0, 0))) != (0, 0))
