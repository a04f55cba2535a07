"""Record the GPU that kernels run on (`record_gpu`): facts from torch, and measurements of what torch does not know.

`timed` measures one launch of a kernel: the median of many separate launches with cold caches. On a GPU, it uses
events. Before the first event of each launch, the arguments are restored and the cache is flushed, which takes long
enough for the CPU to queue the launch. The time between two events around an empty kernel is recorded with the GPU, as
the lower limit of what can be measured.
"""

import statistics
import time
from typing import Any

from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.isolation.private_copies import free_memory
from ctrace.inspector.capture.isolation.second_run import RepeatableLaunch, own_work
from ctrace.inspector.facts.built import Gpu

# Chosen: the first of them may load the kernel's code, so that two give the estimate.
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
    if launch.on_gpu:
        return _on_gpu(launch)
    return _on_cpu(launch)


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


_COPY = 1 << 30
"""Bytes of a copy that is too large for caches to matter."""


def record_gpu(recorder: Recorder, *, measure: bool) -> None:
    """Record the current GPU."""
    import torch

    # Torch's stubs lack some of these.
    properties: Any = torch.cuda.get_device_properties(torch.cuda.current_device())
    bandwidth = _bandwidth(properties)
    copied = empty = None
    if measure:
        copied, empty = _copied(), _empty()
    recorder.add(
        Gpu(
            name=properties.name,
            capability=(properties.major, properties.minor),
            processors=properties.multi_processor_count,
            registers=properties.regs_per_multiprocessor,
            threads=properties.max_threads_per_multi_processor,
            shared=properties.shared_memory_per_multiprocessor,
            warp=properties.warp_size,
            clock=getattr(properties, "clock_rate", 0) * 1e3 or None,
            bandwidth=bandwidth,
            copied=copied,
            empty=empty,
            tf32=tf32_allowed(),
        )
    )


def _bandwidth(properties: Any) -> float | None:
    """Return the memory bandwidth in bytes per second: two transfers per clock (kHz in torch) over the bus (bits)."""
    clock, width = getattr(properties, "memory_clock_rate", 0), getattr(properties, "memory_bus_width", 0)
    if clock and width:
        return 2 * clock * 1e3 * width / 8
    return None


def _copied() -> float | None:
    import torch

    # The program needs its memory: two copies may take half of what is free at most.
    if free_memory() < 4 * _COPY:
        return None
    with own_work() as launch:
        source, copy = (torch.empty(_COPY, dtype=torch.int8, device="cuda") for _ in range(2))
        # Each byte is read once and written once.
        return 2 * _COPY / timed(launch(lambda: copy.copy_(source)))[0]


def _empty() -> float:
    import torch

    with own_work() as launch:
        # A kernel that does nothing: what is left is the time between two events.
        return timed(launch(lambda: torch.cuda._sleep(0)))[0]


def tf32_allowed() -> tuple[str, ...]:
    """Return the libraries that may compute float32 matmuls with TF32, by the program's current settings."""
    import torch

    allowed = {
        "matmul": torch.get_float32_matmul_precision() != "highest",
        "convolution": torch.backends.cudnn.allow_tf32,
    }
    return tuple(name for name, is_allowed in allowed.items() if is_allowed)
