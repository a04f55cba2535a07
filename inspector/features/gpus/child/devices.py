"""Translate devices for a program that runs on the CPU in place of a GPU.

The program sees its tensors on the GPU; its graphs, which run on the CPU, get the CPU. A literal "cpu" in the program
is marked, because it means the CPU on a GPU machine, too.
"""

from typing import Any

CPU = "cpu"
CUDA = "cuda"


class Literal(str):
    """A "cpu" in a graph that is a literal in the program."""

    __slots__ = ()


def is_gpu(value: Any) -> bool:
    """Whether a value is a CUDA device or its name."""
    if isinstance(value, str):
        return value == CUDA or value.startswith(f"{CUDA}:")
    return _is_device(value) and value.type == CUDA


def is_cpu(value: Any) -> bool:
    """Whether a value is the CPU device or its name."""
    if isinstance(value, str):
        return value in (CPU, f"{CPU}:0")
    return _is_device(value) and value.type == CPU


def on_cpu(value: Any) -> Any:
    """Return the CPU for a GPU; return anything else unchanged."""
    import torch

    if not is_gpu(value):
        return value
    return CPU if isinstance(value, str) else torch.device(CPU)


def the_gpu() -> Any:
    """Return the device that the program's tensors would be on."""
    import torch

    return torch.device(CUDA, 0)


def _is_device(value: Any) -> bool:
    import torch

    return isinstance(value, torch.device)
