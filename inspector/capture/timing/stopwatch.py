"""Time blocks of calls: one part of the work (forward, backward, a whole step), with the device synchronized.

A block is a plain loop between two readings of the clock. A GPU works behind the program; a block ends when the GPU has
finished, so that it holds whatever takes longer, the program or the GPU, as a loop of the user's does.
"""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ctrace.inspector.capture.calls.tensors import tensors
from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.errors import TargetError

Block = Callable[[Any, Sequence[Call], "Wait"], float]
"""Calls a model with each of the arguments, waits for the device, and returns the seconds of all calls."""


Wait = Callable[[], None]


def synchronizer(device: str) -> Wait:
    """Return a function that waits for a type of device; one that does nothing for the CPU.

    The caller says what the model computes on: to compile initializes CUDA even for a model on the CPU.
    """
    import torch

    waits: dict[str, Wait] = {
        "cuda": torch.cuda.synchronize,
        "xpu": torch.xpu.synchronize,
        "mps": torch.mps.synchronize,
    }
    return waits.get(device, nothing)


def nothing() -> None:
    """Wait for nothing: the CPU is done when a call returns."""


def forward(model: Any, calls: Sequence[Call], wait: Wait) -> float:
    """Time calls of the model."""
    wait()
    began = time.perf_counter()
    for call in calls:
        model(*call.args, **call.kwargs)
    wait()
    return time.perf_counter() - began


def step(model: Any, calls: Sequence[Call], wait: Wait) -> float:
    """Time forward and backward together; each step begins without gradients, as after `zero_grad`."""
    parameters, leaves = _parameters(model), _leaves(calls)
    wait()
    began = time.perf_counter()
    for call in calls:
        for parameter in parameters:
            parameter.grad = None
        loss_of(model(*call.args, **call.kwargs)).backward()
    wait()
    seconds = time.perf_counter() - began
    _clear([*parameters, *leaves])
    return seconds


def backward(model: Any, calls: Sequence[Call], wait: Wait) -> float:
    """Time the backward of each call alone; the device is idle when it begins and when it ends."""
    leaves = [*_parameters(model), *_leaves(calls)]
    seconds = 0.0
    for call in calls:
        _clear(leaves)
        loss = loss_of(model(*call.args, **call.kwargs))
        wait()
        began = time.perf_counter()
        loss.backward()
        wait()
        seconds += time.perf_counter() - began
        del loss
    _clear(leaves)
    return seconds


PARTS: dict[str, Block] = {"forward": forward, "backward": backward, "step": step}


def loss_of(outputs: Any) -> Any:
    """Return the sum of all outputs, to call backward on.

    Raises:
        TargetError: no output requires a gradient.
    """
    import torch

    if isinstance(outputs, torch.Tensor) and outputs.requires_grad:
        return outputs.sum()
    from torch.utils import _pytree

    leaves = [leaf for leaf in _pytree.tree_leaves(outputs) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not leaves:
        what = "--train: no output of the model requires a gradient"
        raise TargetError(what, "drop --train, or unfreeze a parameter")
    return sum(leaf.sum() for leaf in leaves)


@contextmanager
def without_collector() -> Iterator[None]:
    """Keep Python's garbage collector from running in the block; it would hit one side only."""
    was_on = gc.isenabled()
    gc.collect()
    gc.freeze()  # so that `collect` looks at what calls leave behind, not at all of torch
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()


def _parameters(model: Any) -> list[Any]:
    import torch

    if not isinstance(model, torch.nn.Module):
        return []
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def _leaves(calls: Sequence[Call]) -> list[Any]:
    found = {id(leaf): leaf for call in calls for leaf in tensors(call) if leaf.is_leaf and leaf.requires_grad}
    return list(found.values())


def _clear(leaves: Sequence[Any]) -> None:
    for leaf in leaves:
        leaf.grad = None
