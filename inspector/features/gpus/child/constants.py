"""Compute constants on the CPU if torch needs them at compile time and the graph's device does not exist.

Only their values matter. Three places compute them (2.11 to 2.13): Inductor folds uniform tensors by running their ops
on one element (_inductor/fx_passes/joint_graph.py, `UniformValueConstantFolder`), the tracer follows the values of
small constants (fx/experimental/proxy_tensor.py, `proxy_call`), and a graph copies constants to the device that uses
them (_inductor/graph.py, `GraphLowering.constant_name`).
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ctrace.inspector.capture.core.patch import patched


@contextmanager
def constants_on_cpu() -> Iterator[None]:
    """Compute and keep constants on the CPU."""
    from torch._inductor.fx_passes.joint_graph import UniformValueConstantFolder as Folder
    from torch._inductor.graph import GraphLowering
    from torch.fx.experimental import proxy_tensor

    with ExitStack() as patches:
        for name in ("__init__", "_deduce_value"):
            patches.enter_context(patched(Folder, name, _on_cpu(getattr(Folder, name))))
        tracer: Any = proxy_tensor
        without_fake = _with_real_on_cpu(tracer.unset_fake_temporarily)
        patches.enter_context(patched(tracer, "unset_fake_temporarily", without_fake))
        patches.enter_context(patched(GraphLowering, "constant_name", _not_copied(GraphLowering.constant_name)))
        yield


def _on_cpu(original: Callable[..., Any]) -> Callable[..., Any]:
    def on_cpu(*args: Any, **kwargs: Any) -> Any:
        with _cpu_mode():
            return original(*args, **kwargs)

    return on_cpu


def _with_real_on_cpu(original: Callable[[], Any]) -> Callable[[], Any]:
    @contextmanager
    def without_fake() -> Iterator[Any]:
        with original() as mode, _cpu_mode():
            yield mode

    return without_fake


def _cpu_mode() -> Any:
    """Make a mode in which every op with a device argument runs on the CPU."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_map_only

    class OnCpu(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            args, kwargs = tree_map_only(torch.device, lambda _device: torch.device("cpu"), (args, kwargs or {}))
            return func(*args, **kwargs)

    return OnCpu()


def _not_copied(original: Callable[..., str]) -> Callable[..., str]:
    """Wrap `constant_name`: name a constant as if it had been copied to the GPU, but do not copy it."""

    def constant_name(self: Any, name: str, device_override: Any) -> str:
        constant = self.constants[name]
        if device_override is None or device_override.type != "cuda" or constant.device == device_override:
            return original(self, name, device_override)
        copied = f"{name}_{device_override.type}{device_override.index or 0}"
        return str(self.allocate_non_dup_const_name(copied, constant))

    return constant_name
