"""Cut lists of layers for a first look (`--layers`)."""

from collections.abc import Iterable
from typing import Any


def cut_layers(modules: Iterable[Any], left: int) -> int:
    """Leave the first layers of each `ModuleList`, and return how many were cut.

    A list of different modules stays whole: its modules are no repeated layers, and the model may name each of them.
    """
    import torch

    cut = 0
    for root in modules:
        for part in root.modules():
            if isinstance(part, torch.nn.ModuleList) and len(part) > left and len({type(each) for each in part}) == 1:
                cut += len(part) - left
                del part[left:]
    return cut
