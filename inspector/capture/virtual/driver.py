"""A driver of Triton's for a GPU that is not there: it names the target to compile for, and launches nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ctrace.inspector.gpus.gpu import TargetGpu


class Driver:
    """What Triton asks of a driver to compile (triton/backends/driver.py, 3.6 and 3.7)."""

    def __init__(self, gpu: TargetGpu) -> None:
        self._gpu = gpu

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        major, minor = self._gpu.capability
        return GPUTarget("cuda", major * 10 + minor, self._gpu.warp)

    def get_current_device(self) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cuda", 0)

    def map_python_to_cpp_type(self, type_: str) -> str:
        from triton.backends.nvidia.driver import ty_to_cpp

        return str(ty_to_cpp(type_))

    @contextmanager
    def active(self) -> Iterator[None]:
        """Have Triton ask this driver until the end of the block."""
        from triton.runtime import driver

        before = driver._active
        driver.set_active(self)
        try:
            yield
        finally:
            driver._active = before
