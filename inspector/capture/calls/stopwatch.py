"""Time blocks of calls: one part of the work (forward, backward, a whole step), with the device synchronized.

A block is a plain loop between two readings of the clock. A GPU runs asynchronously, so a block ends when the GPU has
finished. It takes as long as the slower of the program and the GPU, like a loop in the user's code.
"""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ctrace.inspector.capture.calls.call_tensors import tensors
from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.errors import TargetError

Block = Callable[[Any, Sequence[Call], "Wait"], float]
"""Calls a model with each of the arguments, waits for the device, and returns the seconds of all calls."""


Wait = Callable[[], None]


def synchronizer(device: str) -> Wait:
    """Return a function that waits for a type of device; for the CPU, it does nothing.

    The caller passes the type, because compiling initializes CUDA even for a model on the CPU.
    """
    import torch

    waits: dict[str, Wait] = {
        "cuda": torch.cuda.synchronize,
        "xpu": torch.xpu.synchronize,
        "mps": torch.mps.synchronize,
    }
    return waits.get(device, nothing)


def nothing() -> None:
    """Do nothing: the CPU has finished when a call returns."""


def forward(model: Any, calls: Sequence[Call], wait: Wait) -> float:
    """Time calls of the model."""
    wait()
    began = time.perf_counter()
    for call in calls:
        model(*call.args, **call.kwargs)
    wait()
    return time.perf_counter() - began


class TimedLoop:
    """Times calls of a model as a loop with `out = model(x)` makes them: the last result is alive in the next call.

    Torch records no CUDA graph while results are alive that may still need a backward (`try_end_curr_warmup`,
    _inductor/cudagraph_trees.py, 2.11 to 2.15), and should do here as it does in the user's program.
    """

    def __init__(self) -> None:
        self._last: dict[int, Any] = {}

    def __call__(self, model: Any, calls: Sequence[Call], wait: Wait) -> float:
        """Time calls of the model."""
        # Popped, so that the first call frees the result of the block before, as an assignment would.
        result = self._last.pop(id(model), None)
        wait()
        began = time.perf_counter()
        for call in calls:
            result = model(*call.args, **call.kwargs)
        wait()
        seconds = time.perf_counter() - began
        self._last[id(model)] = result
        return seconds


def step(model: Any, calls: Sequence[Call], wait: Wait) -> float:
    """Time forward and backward together; each step begins without gradients, as after `zero_grad`."""
    parameters, leaves = _parameters(model), _leaves(calls)
    wait()
    began = time.perf_counter()
    for call in calls:
        for parameter in parameters:
            # Not `zero_`: `zero_grad` sets None by default, and a gradient that exists is added to.
            parameter.grad = None
        loss_of(model(*call.args, **call.kwargs)).backward()
    wait()
    seconds = time.perf_counter() - began
    # After the clock was read: freeing gradients is no part of a step.
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
        # The graph of autograd dies before the next call, as it would in a loop.
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

    # The common case without a walk through the outputs, as `step` calls this while it times.
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
    """Disable Python's garbage collector in the block, because a collection slows down only one side."""
    was_on = gc.isenabled()
    # First, so that what is frozen below is no garbage.
    gc.collect()
    gc.freeze()  # `collect` then scans only what calls leave behind, not all of torch
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
