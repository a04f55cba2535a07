"""Constants that Inductor computes while it compiles: on the CPU, where the graph's device is not there.

Inductor folds tensors of one value by running their ops on one element (2.11 to 2.13, _inductor/constant_folding.py
and fx_passes/joint_graph.py: `UniformValueConstantFolder`). Only the value is used; the device is that of the node.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ctrace.inspector.capture.patch import patched


@contextmanager
def folded_on_cpu() -> Iterator[None]:
    """Have constants folded on the CPU."""
    from torch._inductor.fx_passes.joint_graph import UniformValueConstantFolder as Folder

    with (
        patched(Folder, "__init__", _on_cpu(Folder.__init__)),
        patched(Folder, "_deduce_value", _on_cpu(Folder._deduce_value)),
    ):
        yield


def _on_cpu(original: Callable[..., Any]) -> Callable[..., Any]:
    from torch.utils._python_dispatch import TorchDispatchMode

    class OnCpu(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            import torch

            given = dict(kwargs or {})
            if given.get("device") is not None:
                given["device"] = torch.device("cpu")
            return func(*args, **given)

    def on_cpu(*args: Any, **kwargs: Any) -> Any:
        with OnCpu():
            return original(*args, **kwargs)

    return on_cpu
