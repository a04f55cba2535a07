"""Measure the peak memory of a call's tensors."""

import gc
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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
    return _on_cpu(bench, side, calls)


def _on_cpu(bench: Bench, side: int, calls: Any) -> int | None:
    """Add up the allocations that the profiler records, because torch does not count the CPU's memory."""
    from torch.profiler import ProfilerActivity, profile

    with (
        _without_line(_FREED_EARLIER),
        profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled,
    ):
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


_FREED_EARLIER = b"Memory block of unknown size was allocated before the profiling started"
"""Torch's C++ code warns so if the call frees what the program allocated before it, as it should (2.13,
c10/core/CPUAllocator.cpp, `ProfiledCPUMemoryReporter::Delete`); Python's warning filters do not see it."""


@contextmanager
def _without_line(unwanted: bytes) -> Iterator[None]:
    """Drop a line that C++ code writes to stderr, and write all others once the block ends."""
    sys.stderr.flush()
    shown = os.dup(2)
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(shown, 2)
            os.close(shown)
            kept.seek(0)
            for line in kept:
                if unwanted not in line:
                    os.write(2, line)


def pool_bytes() -> int | None:
    """Return the bytes in private memory pools, which CUDA graphs own, or None if no GPU is used."""
    import torch

    if not torch.cuda.is_initialized():
        return None
    segments: list[dict[str, Any]] = torch.cuda.memory_snapshot()
    return sum(int(each["total_size"]) for each in segments if tuple(each.get("segment_pool_id", (0, 0))) != (0, 0))
