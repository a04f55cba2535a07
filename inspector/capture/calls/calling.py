"""Call a model, optionally run backward, and collect the results (`called`).

A model's file may fork: the fork must not call the remaining scenarios as its parent does (`end_if_forked`).
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from os import getpid
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.capture.calls.call_tensors import tensors
from ctrace.inspector.capture.calls.ways import Call, Way, gradients
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.dynamo.op_counts import OpCounts
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.outcome import Failure, FailurePhase


class _Owner(Struct):
    """The process that is calling the model."""

    process: int
    recorder: Recorder


_owners: list[_Owner] = []


@contextmanager
def in_this_process(recorder: Recorder) -> Iterator[None]:
    """Let only this process return from the user's code in this block."""
    _owners.append(_Owner(getpid(), recorder))
    try:
        yield
    finally:
        end_if_forked()
        _owners.pop()


def end_if_forked() -> None:
    """Record a failure and end this process if it is a fork that returned from the user's code."""
    for owner in _owners:
        if getpid() != owner.process:
            what = "the model file forked, and the child process returned from the call"
            todo = "End the child process with os._exit when its work is done, or use multiprocessing."
            owner.recorder.add(Failure(FailurePhase.CRASH, "Fork", what, todo=todo))
            os._exit(1)


class CallStoppedError(Exception):
    """The call asks for a value that does not exist (`--fake`); `todo` is what the user can do about it."""

    def __init__(self, what: str, todo: str) -> None:
        super().__init__(what)
        self.todo = todo


def with_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, and those that it was raised from or while handling."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        yield error
        seen.add(id(error))
        error = error.__cause__ or error.__context__


def stop_in(error: BaseException | None) -> CallStoppedError | None:
    """Return the stop that an exception comes from, also if the program caught that and raised another; None: none."""
    return next((each for each in with_causes(error) if isinstance(each, CallStoppedError)), None)


class CallResults(Struct, frozen=True):
    """Results of a call: outputs, inputs and buffers after the call, gradients of parameters and inputs."""

    outputs: Any
    inputs: list[Any]
    gradients: list[Any]
    buffers: dict[str, Any] = field(default_factory=dict)


def called(
    model: Any, call: Call, way: Way, *, train: bool, counting: AbstractContextManager[OpCounts | None] | None = None
) -> tuple[CallResults, OpCounts | None]:
    """Call a model and count the ops of its forward pass in `counting`.

    Raises:
        TargetError: no output requires a gradient.
        BaseException: whatever the model raises.
    """
    inputs = tensors(call)
    # Gradients accumulate in leaves only, so those of an earlier call are removed first.
    leaves = []
    if train:
        leaves = [leaf for leaf in (*_parameters(model), *inputs) if leaf.is_leaf and leaf.requires_grad]
    for leaf in leaves:
        leaf.grad = None
    try:
        with counting or nullcontext() as counts, gradients(way):
            outputs = model(*call.args, **call.kwargs)
        if train and way.backward():
            _backward(outputs)
    finally:
        # Also after an exception: a fork must not report it as its parent would.
        end_if_forked()
    return CallResults(outputs, inputs, [leaf.grad for leaf in leaves], _buffers(model)), counts


def _parameters(model: Any) -> Iterable[Any]:
    import torch

    if isinstance(model, torch.nn.Module):
        return model.parameters()
    return ()


def _buffers(model: Any) -> dict[str, Any]:
    """Return the buffers under the names that the model uses: torch.compile wraps the model in another module."""
    import torch

    if not isinstance(model, torch.nn.Module):
        return {}
    return {name.removeprefix("_orig_mod."): buffer for name, buffer in model.named_buffers()}


def _backward(outputs: Any) -> None:
    import torch
    from torch.utils import _pytree

    leaves = [leaf for leaf in _pytree.tree_leaves(outputs) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not leaves:
        raise TargetError(
            "--train: no output of the model requires a gradient", "drop --train, or unfreeze a parameter"
        )
    # A sum reaches every element of every output with the same weight; no loss function has to be guessed.
    total = sum(leaf.sum() for leaf in leaves)
    total.backward()  # type: ignore[union-attr]
