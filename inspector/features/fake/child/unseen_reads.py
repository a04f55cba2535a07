"""Follow what reads a tensor's memory without an op: NumPy, lists, copies of storages, text, checkpoints."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from ctrace.inspector.capture.core.callers import folder_of_torch
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.features.fake.child.asked_values import READS_MEMORY, AskedValues
from ctrace.inspector.features.fake.child.storageless_mode import KnownValues
from ctrace.inspector.features.fake.child.without_storage import storageless

_DRAWS = "_no_grad_trunc_normal_"
"""Draws until all numbers lie within the bounds (2.13, nn/init.py)."""


@contextmanager
def unseen_reads(values: KnownValues, asked: AskedValues, recorder: Recorder) -> Iterator[None]:
    """Stop, or go on without values, where the program reads memory that does not exist."""
    import torch

    tensor: Any = torch.Tensor

    def replaced(owner: Any, name: str, function: Callable[..., Any]) -> AbstractContextManager[Any]:
        # Dynamo takes a method of a tensor for torch's by this name (2.13, _dynamo/variables/tensor.py,
        # `is_bound_tensor_method`), and would compile the function where the program calls it between two graphs.
        function.__name__ = name
        return patched(owner, name, torch._compile._disable_dynamo(function))

    with ExitStack() as patches:
        for name, what in (("numpy", "a NumPy array"), ("tolist", "a list")):
            patches.enter_context(replaced(tensor, name, _refused(getattr(tensor, name), what, values, asked)))
        patches.enter_context(replaced(tensor, "data_ptr", _located(tensor.data_ptr, values, asked)))
        patches.enter_context(replaced(tensor, "__deepcopy__", _copied(tensor.__deepcopy__, values)))
        init: Any = torch.nn.init
        if hasattr(init, _DRAWS):  # the program's own loops that draw until all numbers fit stop
            patches.enter_context(replaced(init, _DRAWS, _undrawn(getattr(init, _DRAWS), values)))
        text: Any = sys.modules["torch._tensor_str"]
        patches.enter_context(replaced(text, "_str", _written(text._str, values)))
        patches.enter_context(replaced(torch, "load", _named(torch.load, "torch.load", asked, recorder)))
        yield


def _undrawn(original: Callable[..., Any], values: KnownValues) -> Callable[..., Any]:
    def drawn(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if values.keeps_random or not values.is_ordinary(tensor):
            return original(tensor, *args, **kwargs)
        values.forget(tensor)
        return tensor

    return drawn


def _refused(original: Callable[..., Any], what: str, values: KnownValues, asked: AskedValues) -> Callable[..., Any]:
    def read(self: Any, *args: Any, **kwargs: Any) -> Any:
        if values.is_ordinary(self) and values.is_unknown(self):
            spot = asked.spot()
            todo = "Compute with the tensor itself: its values do not exist under --fake."
            raise asked.stop(spot, f"the values of `{spot.expression}` as {what}", todo)
        return original(self, *args, **kwargs)

    return read


def _located(original: Callable[..., int], values: KnownValues, asked: AskedValues) -> Callable[..., int]:
    def data_ptr(self: Any) -> int:
        try:
            return original(self)
        except RuntimeError:  # torch's own, of a tensor without memory
            # Torch handles its own refusal, as where it tries a fast path first.
            if _is_called_by_torch() or not values.is_ordinary(self):
                raise
            raise asked.stop(asked.spot(), "the address of values that do not exist", READS_MEMORY) from None

    return data_ptr


def _is_called_by_torch() -> bool:
    """Whether torch asks for an address, behind the functions that keep Dynamo out."""
    torch_folder = folder_of_torch()
    keeping_out = (f"{torch_folder}_compile.py", f"{torch_folder}_dynamo/", __file__)
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(keeping_out):
        frame = frame.f_back
    return frame.f_code.co_filename.startswith(torch_folder)


def _copied(original: Callable[..., Any], values: KnownValues) -> Callable[..., Any]:
    def copied(self: Any, memo: dict[int, Any]) -> Any:
        # A tensor that was copied already, or has values, is torch's own to copy.
        if id(self) in memo or not values.is_ordinary(self) or not values.is_unknown(self):
            return original(self, memo)
        made = storageless(self.size(), self.stride(), self.dtype)
        made.requires_grad_(self.requires_grad)
        made.__dict__.update(self.__dict__)
        memo[id(self)] = made
        return made

    return copied


def _written(original: Callable[..., str], values: KnownValues) -> Callable[..., str]:
    def _str(self: Any, *args: Any, **kwargs: Any) -> str:
        if values.is_ordinary(self) and values.is_unknown(self):
            return f"tensor(..., size={tuple(self.size())}, dtype={self.dtype})"
        return original(self, *args, **kwargs)

    return _str


def _named(original: Callable[..., Any], name: str, asked: AskedValues, recorder: Recorder) -> Callable[..., Any]:
    def load(*args: Any, **kwargs: Any) -> Any:
        spot = asked.spot()
        recorder.problem(
            f"{name} at {spot.file}:{spot.line} reads real values, which take memory under --fake: "
            "leave the checkpoint out, its values change nothing here"
        )
        return original(*args, **kwargs)

    return load
