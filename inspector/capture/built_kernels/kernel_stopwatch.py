"""Time one launch of a kernel: the median of many separate launches with cold caches.

On a GPU, use events. Before the first event of each launch, the arguments are restored and the cache is flushed, which
takes long enough for the CPU to queue the launch. The time between two events around an empty kernel is also recorded
(`built_kernels/current_gpu.py`), as the lower limit of what can be measured.
"""

import statistics
import time
from typing import Any

from ctrace.inspector.capture.isolation.second_run import RepeatableLaunch

_WARM_UP = 3
# Five launches give a median that one interruption does not move; more than fifty no longer change it.
_MOST, _LEAST = 50, 5
_BUDGET = 0.05
"""Seconds to spend on the launches of one kernel; a long kernel is launched fewer times."""
_ON_CPU = 3
"""Number of launches on a CPU: flushing the caches takes longer than most kernels, so more would slow down the run."""
_CPU_CACHE = 64 << 20
"""Bytes to overwrite to flush a CPU's caches: more than those of common processors hold."""
_HEAD_START = 2_000_000
"""GPU cycles, about a millisecond, in which the CPU queues the first launches."""


def timed(launch: RepeatableLaunch) -> tuple[float, int]:
    """Return the median seconds of a launch and the number of launches; its `restore` runs untimed before each."""
    return _on_gpu(launch) if launch.on_gpu else _on_cpu(launch)


def _on_gpu(launch: RepeatableLaunch) -> tuple[float, int]:
    import torch

    # Writing twice the size of the L2 cache leaves little else in it.
    cache = torch.empty(2 * _l2_bytes(), dtype=torch.int8, device="cuda")
    # The first launch may load the kernel's code onto the GPU.
    estimate = max(_batch(launch, cache, _WARM_UP)[1:])
    # 1e-6: a launch shorter than the resolution of events may seem to take no time.
    launches = int(min(max(_BUDGET / max(estimate, 1e-6), _LEAST), _MOST))
    return statistics.median(_batch(launch, cache, launches)), launches


def _batch(launch: RepeatableLaunch, cache: Any, launches: int) -> list[float]:
    import torch

    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(launches)]
    # Otherwise the GPU waits for the CPU between launches, and the waiting is timed, too.
    _give_head_start()
    for start, end in events:
        launch.restore()
        cache.zero_()
        start.record()
        launch.run()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) / 1000 for start, end in events]


def _l2_bytes() -> int:
    import torch

    # At least 64 MiB, more than the L2 cache of an H100 (50 MiB).
    return int(max(torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size, 64 << 20))


def _give_head_start() -> None:
    import torch

    torch.cuda._sleep(_HEAD_START)


def _on_cpu(launch: RepeatableLaunch) -> tuple[float, int]:
    import torch

    cache = torch.empty(_CPU_CACHE, dtype=torch.int8)
    times: list[float] = []
    # The first run may load code and touch memory for the first time, so it is not timed.
    launch.run()
    for _ in range(_ON_CPU):
        launch.restore()
        cache.zero_()
        began = time.perf_counter()
        launch.run()
        times.append(time.perf_counter() - began)
    return statistics.median(times), len(times)
