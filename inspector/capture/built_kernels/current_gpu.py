"""Record the GPU that kernels run on: facts from torch, and measurements of what torch does not know."""

from typing import Any

from ctrace.inspector.capture.built_kernels.kernel_stopwatch import timed
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.isolation.private_copies import free_memory
from ctrace.inspector.capture.isolation.second_run import own_work
from ctrace.inspector.facts.built import Gpu

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
    return 2 * clock * 1e3 * width / 8 if clock and width else None


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
