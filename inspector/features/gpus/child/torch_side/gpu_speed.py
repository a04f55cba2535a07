"""Answer with the target GPU's speed when Inductor compares arithmetic with memory traffic.

Inductor looks up a GPU by name in its table (2.11 to 2.13, _inductor/analysis/device_info.py), and derives missing
numbers from the driver's clocks (_inductor/utils.py: `get_device_tflops`, `get_gpu_dram_gbps`).
"""

from collections.abc import Iterator
from contextlib import contextmanager

from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.knowledge.gpus.gpu import TargetGpu


@contextmanager
def as_fast_as(gpu: TargetGpu) -> Iterator[None]:
    """Answer with the clock of `gpu` when torch would run `nvidia-smi`."""
    import torch._utils_internal as internal

    def max_clock_rate() -> int:
        if gpu.clock is None:
            msg = f"the clock of {gpu.name} is unknown"
            raise RuntimeError(msg)
        return round(gpu.clock / 1e6)

    with patched(internal, "max_clock_rate", max_clock_rate):
        yield
