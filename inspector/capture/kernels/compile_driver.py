"""A Triton driver for the target GPU: it names the target to compile for, and launches nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from ctrace.inspector.knowledge.gpus.gpu_table import TargetGpu


class Driver:
    """The parts of a driver that Triton needs to compile (triton/backends/driver.py, 3.6 and 3.7)."""

    def __init__(self, gpu: TargetGpu) -> None:
        self._gpu = gpu

    def get_current_target(self) -> Any:
        """Return the target that kernels are compiled for."""
        from triton.backends.compiler import GPUTarget

        major, minor = self._gpu.capability
        # Triton's way of writing a capability: 9.0 is 90.
        return GPUTarget("cuda", major * 10 + minor, self._gpu.warp)

    def get_current_device(self) -> int:
        """Return the only device."""
        return 0

    def get_active_torch_device(self) -> Any:
        """Return the device as a `torch.device`."""
        import torch

        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        """Return the interface that Triton asks for the current device."""
        import torch

        return torch.cuda

    @property
    def utils(self) -> Any:
        """Return the object that Triton asks for a device's properties."""
        return SimpleNamespace(get_device_properties=lambda _device: self._properties())

    def _properties(self) -> dict[str, int]:
        """Return the properties for Triton's speed estimates (triton/testing.py).

        Triton multiplies memory clock and bus width; only their product, the bandwidth, is right here.
        """
        known = {"multiprocessor_count": self._gpu.processors, "max_shared_mem": self._gpu.shared_per_block_optin}
        if self._gpu.bandwidth is not None:
            # Solved for the clock: Triton multiplies it by 2 and by the width, in kHz and bits (`get_dram_gbps`).
            known |= {"mem_clock_rate": round(self._gpu.bandwidth * 8 / 2 / 1e3), "mem_bus_width": 1}
        return known

    def map_python_to_cpp_type(self, type_: str) -> str:
        """Return the C++ type of a kernel argument."""
        from triton.backends.nvidia.driver import ty_to_cpp

        return str(ty_to_cpp(type_))

    @contextmanager
    def active(self) -> Iterator[None]:
        """Make this Triton's active driver until the end of the block."""
        from triton.runtime import driver

        # Not `driver.active`, which looks for the driver of a GPU, and raises on a machine without one.
        before = driver._active
        driver.set_active(self)
        try:
            yield
        finally:
            driver._active = before
