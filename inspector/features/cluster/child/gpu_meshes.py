"""Let DTensor communicate on a mesh of GPUs as it does there, although its tensors are on the CPU.

Torch chooses by the type of a mesh's devices (2.11 to 2.13). On the CPU it turns one sharded dimension into another by
a gather of all parts, as gloo lacked all-to-all (distributed/tensor/_collective_utils.py), and it shares no state of
random generators (distributed/tensor/_random.py), which on GPUs the first rank sends to all before the first random op
on a DTensor.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.source import When

_STATE_BYTES = 16
"""The state of a generator of a GPU: its seed and its offset (distributed/tensor/_random.py)."""


class GpuMeshes:
    """Knows whether the program has made a mesh of GPUs; then all its meshes with DTensors are taken for such."""

    def __init__(self) -> None:
        self.is_made = False
        self._is_shared = False

    @contextmanager
    def source(self, recorder: Recorder, when: When) -> Iterator[None]:
        """Install the hooks."""
        with ExitStack() as patches:

            def placements(module: ModuleType) -> None:
                with recorder.watching("redistributions on GPUs"):
                    name = "shard_dim_alltoall"
                    patches.enter_context(patched(module, name, self._exchanging(getattr(module, name))))

            def dispatch(module: ModuleType) -> None:
                with recorder.watching("random ops on GPUs"):
                    name = "is_rng_supported_mesh"
                    patches.enter_context(patched(module, name, self._sharing(getattr(module, name))))

            when("torch.distributed.tensor.placement_types", placements)
            when("torch.distributed.tensor._dispatch", dispatch)
            yield

    def _exchanging(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def exchange(input: Any, gather_dim: int, shard_dim: int, mesh: Any, mesh_dim: int) -> Any:
            if not self.is_made or mesh.device_type != "cpu":
                return original(input, gather_dim, shard_dim, mesh, mesh_dim)
            from torch.distributed.tensor import _collective_utils

            # A simulation of all ranks in one process takes the way of GPUs, too; a mesh in a trace cannot be changed.
            with patched(_collective_utils, "local_tensor_mode", lambda: True):
                return original(input, gather_dim, shard_dim, mesh, mesh_dim)

        return exchange

    def _sharing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def is_supported(mesh: Any) -> Any:
            if not self.is_made or mesh.device_type != "cpu":
                return original(mesh)
            import torch

            is_traced = torch.compiler.is_compiling() or torch._guards.TracingContext.try_get() is not None
            if not self._is_shared and not is_traced:
                self._is_shared = True
                with torch.no_grad():
                    torch.distributed.broadcast(torch.zeros(_STATE_BYTES, dtype=torch.uint8), 0)
            return False

        return is_supported
