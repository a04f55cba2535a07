"""Copy a model and arguments, so that a call has no side effects."""

import copy
from collections import OrderedDict
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
        return _deep_copy(model, memo)

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


_MOST_REFUSING = 16
"""How many such objects are copied apart: for each, the copy starts again."""


def _deep_copy(value: Any, memo: dict[int, Any]) -> Any:
    """Copy deeply, also dictionaries whose attributes are their items, as with `__getattr__ = dict.__getitem__`.

    `deepcopy` asks an object for `__deepcopy__` and expects AttributeError, where these raise KeyError. So their copies
    are made apart, in the memo, and filled with the copies of their items.

    Raises:
        Exception: something cannot be copied.
    """
    apart: list[tuple[Any, Any]] = []
    while True:
        try:
            # A memo of its own: a copy that failed leaves objects without their state in it.
            made, items = copy.deepcopy((value, [_contents(each) for each, _ in apart]), dict(memo))
        except Exception as error:
            refusing = _refusing(error)
            if refusing is None or len(apart) == _MOST_REFUSING or any(each is refusing for each, _ in apart):
                raise
            kind: Any = type(refusing)
            twin = kind.__new__(kind)
            apart.append((refusing, twin))
            memo = memo | {id(refusing): twin}
        else:
            for (_, twin), (of_dict, attributes) in zip(apart, items, strict=True):
                dict.update(twin, of_dict)
                object.__getattribute__(twin, "__dict__").update(attributes)
            return made


def _contents(refusing: Any) -> tuple[dict[Any, Any], dict[str, Any]]:
    return dict(dict.items(refusing)), dict(object.__getattribute__(refusing, "__dict__"))


def _refusing(error: Exception) -> Any:
    """Return the dictionary that raised an error because it was asked for `__deepcopy__`; None: it did not."""
    trace, asked = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code is copy.deepcopy.__code__:
            asked = trace.tb_frame.f_locals.get("x")
        trace = trace.tb_next
    # An OrderedDict has an order of its own, which `dict.update` does not keep.
    if not isinstance(asked, dict) or isinstance(asked, OrderedDict):
        return None
    try:
        getattr(asked, "__deepcopy__", None)
    except Exception:
        return asked
    return None


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
    leaves = [each for each in _pytree.tree_leaves((call.args, call.kwargs)) if isinstance(each, torch.Tensor)]
    memo = {
        id(leaf): leaf.detach().clone().requires_grad_(leaf.requires_grad)
        for leaf in leaves
        if not leaf.is_leaf or _is_bare_subclass(leaf)
    }
    memo |= _views_of_one_tensor(leaves)
    args, kwargs = _deep_copy((call.args, call.kwargs), memo)
    return Call(args, kwargs)


def _views_of_one_tensor(tensors: list[Any]) -> dict[int, Any]:
    """Copy those tensors that are views of one tensor, or are it, to views of its copy, by their identity.

    `deepcopy` lets copies share memory, but they are no views then. AOTAutograd joins arguments that share memory
    through the tensor that they are views of, and fails in some cases without it (2.13, _functorch/_aot_autograd/
    runtime_wrappers.py:merge_view_inputs).
    """
    groups: dict[int, list[Any]] = {}
    for each in {id(each): each for each in tensors}.values():
        groups.setdefault(id(each if each._base is None else each._base), []).append(each)
    found: dict[int, Any] = {}
    for group in groups.values():
        if group[0]._base is None:
            base = group[0]
        else:
            base = group[0]._base
        if len(group) > 1 and all(_is_plain_view(each, base) for each in group):
            twin = copy.deepcopy(base.detach())
            for each in group:
                if each is base:
                    made = twin
                else:
                    made = twin.as_strided(each.shape, each.stride(), each.storage_offset())
                made.__dict__.update(copy.deepcopy(each.__dict__))  # such as the sizes marked dynamic
                found[id(each)] = made
    return found


def _is_plain_view(tensor: Any, base: Any) -> bool:
    import torch

    return (
        type(tensor) is torch.Tensor
        and not tensor.requires_grad
        and tensor.layout is torch.strided
        and not tensor.is_inference()
        and (tensor.dtype, tensor.is_conj(), tensor.is_neg()) == (base.dtype, False, False)
    )


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
