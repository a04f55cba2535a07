"""Cut lists of layers for a first look (`--layers`)."""

from collections.abc import Iterable
from typing import Any


def cut_layers(modules: Iterable[Any], left: int) -> int:
    """Leave the first layers of each `ModuleList` of one class, and return how many were cut.

    A list within a layer stays whole, such as the experts that a router counts. So does one of different modules: they
    are no repeated layers.
    """
    return sum(_cut(each, left) for each in modules)


def _cut(module: Any, left: int) -> int:
    import torch

    cut = 0
    for child in module.children():
        is_list = isinstance(child, torch.nn.ModuleList) and len({type(each) for each in child}) == 1
        if not is_list:
            cut += _cut(child, left)
        elif len(child) > left:
            cut += len(child) - left
            del child[left:]
    return cut
