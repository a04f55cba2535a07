"""Measure the peak of a step that runs built kernels: by the allocator of a GPU, or by torch's profiler on the CPU."""

import gc
from collections.abc import Callable

from ctrace.inspector.capture.isolation.profiled_memory import cpu_peak


def measured_peak(run: Callable[[], None], device: str, before: int) -> int | None:
    """Return the bytes at the peak of a step.

    Args:
        run: takes the step.
        device: the type of device that counts.
        before: what is alive before the step, as the ledger has it; a GPU's allocator knows it.
    """
    import torch

    gc.collect()
    if device != "cuda":
        grown = cpu_peak(run)
        return None if grown is None else before + grown
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    return int(torch.cuda.max_memory_allocated())
