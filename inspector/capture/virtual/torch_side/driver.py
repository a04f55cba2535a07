"""A driver of Triton's for a GPU that is not there: it names the target to compile for, and launches nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from ctrace.inspector.gpus.gpu import TargetGpu


class Driver:
    """What Triton asks of a driver to compile (triton/backends/driver.py, 3.6 and 3.7)."""

    def __init__(self, gpu: TargetGpu) -> None:
        self._gpu = gpu

    def get_current_target(self) -> Any:
        """Name the target that kernels are compiled for."""
        from triton.backends.compiler import GPUTarget

        major, minor = self._gpu.capability
        return GPUTarget("cuda", major * 10 + minor, self._gpu.warp)

    def get_current_device(self) -> int:
        """Give the only device."""
        return 0

    def get_active_torch_device(self) -> Any:
        """Give the device as torch names it."""
        import torch

        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        """Give where Triton asks for the current device."""
        import torch

        return torch.cuda

    @property
    def utils(self) -> Any:
        """Give what Triton asks for a device's properties."""
        return SimpleNamespace(get_device_properties=lambda _device: self._properties())

    def _properties(self) -> dict[str, int]:
        """Give what Triton works out speeds of (triton/testing.py); of memory, only the product of both is known."""
        known = {"multiprocessor_count": self._gpu.processors, "max_shared_mem": self._gpu.shared_per_block_optin}
        if self._gpu.bandwidth is not None:
            known |= {"mem_clock_rate": round(self._gpu.bandwidth * 8 / 2 / 1e3), "mem_bus_width": 1}
        return known

    def map_python_to_cpp_type(self, type_: str) -> str:
        """Name a kernel argument's type in C++."""
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
