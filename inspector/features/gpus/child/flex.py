"""Make FlexAttention on the CPU behave as on the GPU.

On the CPU, FlexAttention refuses to train and does not save what the backward needs (2.11 to 2.13,
nn/attention/flex_attention.py, `_validate_device` and `_apply_kernel_options`).
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.source import When

_SAVED = "OUTPUT_LOGSUMEXP"


@contextmanager
def trainable(recorder: Recorder, when: When) -> Iterator[None]:
    """Allow FlexAttention with gradients on the CPU: the graph runs eagerly, and eager FlexAttention supports them."""
    with ExitStack() as patches:

        def install(module: ModuleType) -> None:
            with recorder.watching("FlexAttention with gradients on the CPU"):
                patches.enter_context(patched(module, "_validate_device", _accepted))

        when("torch.nn.attention.flex_attention", install)
        yield


def _accepted(query: Any, key: Any, value: Any) -> None:
    """Replace `_validate_device` and accept any device; Dynamo traces this function."""


def save_for_backward(graph: Any) -> None:
    """Make each FlexAttention of a graph save what its backward needs, as on a GPU with gradients enabled."""
    import torch

    enabled = torch.is_grad_enabled()
    for node in graph.nodes:
        if node.target is torch._C._set_grad_enabled:
            enabled = node.args[0]
        elif enabled and str(node.target) == "flex_attention":
            node.args = tuple(map(_saving, node.args))


def _saving(argument: Any) -> Any:
    if isinstance(argument, dict) and _SAVED in argument:
        return {**argument, _SAVED: True}
    return argument
