"""Time one launch of a kernel: the median of many, each on its own, with cold caches.

On a GPU by events: what restores the arguments and empties the cache comes before the first event of each launch, and
takes long enough for the processor to have queued the launch by then. The time between two events that have an empty
kernel in between is recorded too (`capture/gpu.py`): nothing can be measured below it.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

_WARM_UP = 3
_MOST, _LEAST = 50, 5
_BUDGET = 0.05
"""Seconds of launches that one kernel is given; long kernels are launched fewer times."""
_ON_CPU = 3
"""Launches; there emptying the caches costs more than most kernels, and would be felt in a run."""
_CPU_CACHE = 64 << 20
"""Bytes: more than the caches of common processors."""
_HEAD_START = 2_000_000
"""Cycles, about a millisecond, for the processor to queue the first launches."""


def timed(launch: Callable[[], Any], restore: Callable[[], None], *, on_gpu: bool) -> tuple[float, int]:
    """Give the median seconds of a launch and how many were measured; `restore` runs before each, out of the time."""
    return _on_gpu(launch, restore) if on_gpu else _on_cpu(launch, restore)


def _on_gpu(launch: Callable[[], Any], restore: Callable[[], None]) -> tuple[float, int]:
    import torch

    cache = torch.empty(2 * _l2_bytes(), dtype=torch.int8, device="cuda")
    estimate = max(_batch(launch, restore, cache, _WARM_UP)[1:])
    launches = int(min(max(_BUDGET / max(estimate, 1e-6), _LEAST), _MOST))
    return statistics.median(_batch(launch, restore, cache, launches)), launches


def _batch(launch: Callable[[], Any], restore: Callable[[], None], cache: Any, launches: int) -> list[float]:
    import torch

    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(launches)]
    _give_head_start()
    for began, ended in events:
        restore()
        cache.zero_()
        began.record()
        launch()
        ended.record()
    torch.cuda.synchronize()
    return [began.elapsed_time(ended) / 1000 for began, ended in events]


def _l2_bytes() -> int:
    import torch

    return int(max(torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size, 64 << 20))


def _give_head_start() -> None:
    import torch

    torch.cuda._sleep(_HEAD_START)


def _on_cpu(launch: Callable[[], Any], restore: Callable[[], None]) -> tuple[float, int]:
    import torch

    cache = torch.empty(_CPU_CACHE, dtype=torch.int8)
    times: list[float] = []
    launch()
    for _ in range(_ON_CPU):
        restore()
        cache.zero_()
        began = time.perf_counter()
        launch()
        times.append(time.perf_counter() - began)
    return statistics.median(times), len(times)
