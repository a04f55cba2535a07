"""Copy a model and arguments, so that a call has no side effects."""

import copy
from typing import Any

from ctrace.inspector.capture.calls.ways import Call


class Copier:
    """Copies a model repeatedly, each time into the same memory for parameters and buffers."""

    def __init__(self) -> None:
        self._twins: dict[int, tuple[Any, Any]] = {}
        """Tensors of the model, keyed by id, each with its copy."""

    def copy(self, model: Any) -> Any:
        """Copy a model in its current state, including the gradients of its parameters; return a function unchanged.

        Raises:
            Exception: the model cannot be copied.
        """
        import torch

        memo: dict[int, Any] = {}
        if isinstance(model, torch.nn.Module):
            tensors = [*model.parameters(), *model.buffers()]
            self._refresh(tensors)
            memo = {id(tensor): self._twins[id(tensor)][1] for tensor in tensors}
        # The memo has the tensors' copies, so `deepcopy` copies only what is around them.
        return copy.deepcopy(model, memo)

    def _refresh(self, tensors: list[Any]) -> None:
        import torch

        made: dict[int, Any] = {}
        kept = {}
        with torch.no_grad():
            for tensor in tensors:
                of, twin = self._twins.get(id(tensor), (None, None))
                # An id may have been reused by another tensor; the pair holds the one that it was made for.
                if of is tensor and _alike(tensor, twin):
                    # Into the memory of the last copy: a model is too large to allocate for each call.
                    twin.copy_(tensor)
                else:
                    twin = copy.deepcopy(tensor, made)
                twin.grad = _gradient_copy(tensor)
                kept[id(tensor)] = (tensor, twin)
        self._twins = kept


def _gradient_copy(tensor: Any) -> Any:
    # torch warns where `.grad` of a tensor that keeps none is read (_tensor.py, 2.13).
    has_gradient = (tensor.is_leaf or tensor.retains_grad) and tensor.grad is not None
    if has_gradient:
        return tensor.grad.detach().clone()
    return None


def _alike(tensor: Any, twin: Any) -> bool:
    from torch.nn.parameter import is_lazy

    if any(is_lazy(each) for each in (tensor, twin)):
        return False  # of a lazy module that was not called yet
    return (
        tensor.shape == twin.shape
        and tensor.stride() == twin.stride()
        and (tensor.dtype, tensor.device, tensor.requires_grad) == (twin.dtype, twin.device, twin.requires_grad)
    )


def copied(call: Call) -> Call:
    """Copy arguments.

    Raises:
        Exception: they cannot be copied.
    """
    import torch
    from torch.utils import _pytree

    # deepcopy refuses a tensor with an autograd history; the copy has none, and gradients stop there. It also refuses
    # a subclass that overrides nothing (torch 2.13, _tensor.py: its new_empty() returns a plain tensor).
    memo = {
        id(leaf): leaf.detach().clone().requires_grad_(leaf.requires_grad)
        for leaf in _pytree.tree_leaves((call.args, call.kwargs))
        if isinstance(leaf, torch.Tensor) and (not leaf.is_leaf or _is_bare_subclass(leaf))
    }
    args, kwargs = copy.deepcopy((call.args, call.kwargs), memo)
    return Call(args, kwargs)


def _is_bare_subclass(tensor: Any) -> bool:
    """Whether a tensor's class only gives it another name: no data, no attributes, no behavior of its own."""
    import torch

    kind = type(tensor)
    own = kind.__mro__[: kind.__mro__.index(torch.Tensor)]
    return (
        kind is not torch.Tensor
        and kind.__deepcopy__ is torch.Tensor.__deepcopy__
        and all({"__torch_function__", "__torch_dispatch__"}.isdisjoint(vars(each)) for each in own)
        and not vars(tensor)
    )
