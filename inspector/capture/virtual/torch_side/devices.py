"""Devices as constants of a program that runs on the CPU for a GPU.

The program is told that its tensors are on the GPU, and its graphs, which run on the CPU, are given the CPU. A device
that the program itself writes out as "cpu" stays one on the GPU too: it is marked.
"""

from typing import Any

CPU = "cpu"
CUDA = "cuda"


class Literal(str):
    """The word "cpu" in a graph where the program says it."""

    __slots__ = ()


def is_gpu(value: Any) -> bool:
    """Whether a value is a CUDA device, or the name of one."""
    if isinstance(value, str):
        return value == CUDA or value.startswith(f"{CUDA}:")
    return _is_device(value) and value.type == CUDA


def is_cpu(value: Any) -> bool:
    """Whether a value is the CPU's device, or its name."""
    if isinstance(value, str):
        return value in (CPU, f"{CPU}:0")
    return _is_device(value) and value.type == CPU


def on_cpu(value: Any) -> Any:
    """Give the CPU instead of a GPU; anything else as it is."""
    import torch

    if not is_gpu(value):
        return value
    return CPU if isinstance(value, str) else torch.device(CPU)


def the_gpu() -> Any:
    """Give the device that tensors of the program would be on."""
    import torch

    return torch.device(CUDA, 0)


def _is_device(value: Any) -> bool:
    import torch

    return isinstance(value, torch.device)
