"""How fast a GPU is that is not there, where Inductor weighs arithmetic against memory.

It looks a GPU up by name in a table of its own (2.11 to 2.13, _inductor/analysis/device_info.py), and works out what is
not there from clocks that it asks of the driver (_inductor/utils.py: `get_device_tflops`, `get_gpu_dram_gbps`).
"""

from collections.abc import Iterator
from contextlib import contextmanager

from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.gpus.gpu import TargetGpu


@contextmanager
def as_fast_as(gpu: TargetGpu) -> Iterator[None]:
    """Answer with the clock of `gpu` where torch runs `nvidia-smi`."""
    import torch._utils_internal as internal

    def max_clock_rate() -> int:
        if gpu.clock is None:
            msg = f"the clock of {gpu.name} is not known"
            raise RuntimeError(msg)
        return round(gpu.clock / 1e6)

    with patched(internal, "max_clock_rate", max_clock_rate):
        yield
