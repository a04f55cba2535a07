"""Measure what a call allocates on the CPU: torch counts the memory of a GPU, and that of the CPU only in a profile."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_FREED_EARLIER = b"Memory block of unknown size was allocated before the profiling started"
"""Torch's C++ code warns so if the call frees what the program allocated before it, as it should (2.13,
c10/core/CPUAllocator.cpp, `ProfiledCPUMemoryReporter::Delete`); Python's warning filters do not see it."""
_PROFILER_BEGINS = b"USDT:"
"""Kineto marks so where a profile begins and ends (2.13, SyncActivityProfilerHandler.cpp)."""


class ProfiledPeak:
    """The most bytes that were allocated in a block beyond those before it; None: the profiler recorded nothing."""

    bytes: int | None = None


def cpu_peak(run: Callable[[], Any]) -> int | None:
    """Return the bytes at the peak of a call beyond those before it."""
    with profiled_peak() as peak:
        run()
    return peak.bytes


@contextmanager
def profiled_peak() -> Iterator[ProfiledPeak]:
    """Find the peak of a block, from the allocations that the profiler records; it is known once the block ends."""
    from torch.profiler import ProfilerActivity, profile

    peak = ProfiledPeak()
    with (
        _without_lines(_FREED_EARLIER, _PROFILER_BEGINS),
        profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled,
    ):
        yield peak
    kineto = None
    if profiled.profiler is not None:
        kineto = profiled.profiler.kineto_results
    if kineto is None:
        return
    # Events of several threads may not be in the order of time.
    changes = [(event.start_ns(), event.nbytes()) for event in kineto.events() if event.name() == "[memory]"]
    now = most = 0
    for _, size in sorted(changes, key=lambda change: change[0]):
        now += size
        most = max(most, now)
    peak.bytes = most


@contextmanager
def _without_lines(*unwanted: bytes) -> Iterator[None]:
    """Drop lines that C++ code writes to stderr, and write all others once the block ends."""
    # What Python has buffered so far belongs before the lines of the block.
    sys.stderr.flush()
    shown = os.dup(2)
    with tempfile.TemporaryFile() as kept:
        # The descriptor, as C++ writes to it past `sys.stderr`.
        os.dup2(kept.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(shown, 2)
            os.close(shown)
            kept.seek(0)
            for line in kept:
                if not any(each in line for each in unwanted):
                    os.write(2, line)
