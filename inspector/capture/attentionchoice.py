"""Why torch has no fused kernel for a call of `scaled_dot_product_attention`: torch itself is asked again.

`torch._fused_sdp_choice` (2.11 to 2.13) says which kernel a call would take: 0 is the one made of products and a
softmax. It is asked about tensors of the same sizes, strides and dtypes, each time with one thing changed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

_MATH = 0
_LARGEST = 1 << 28
"""Bytes that asking may take at once."""
_ORDER = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


@dataclass(frozen=True)
class Call:
    """The arguments of one call, tensors as torch's fake ones."""

    query: Any
    key: Any
    value: Any
    attn_mask: Any = None
    dropout_p: float = 0.0
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False

    @classmethod
    def of(cls, node: Any) -> "Call":
        """Read a node of Dynamo's graph."""
        given = {**dict(zip(_ORDER, node.args, strict=False)), **node.kwargs}
        return cls(**{name: _value(each) for name, each in given.items()})


def why_math(call: Call) -> str | None:
    """Give the code of the one thing that stands in the way of a fused kernel; None: torch would take one."""
    from torch._guards import tracing
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    if _bytes(call) > _LARGEST:
        return "math_unasked"
    with tracing(None), unset_fake_temporarily():
        real = replace(call, **{name: _real(getattr(call, name)) for name in _ORDER[:4]})
        if _chosen(real) != _MATH:
            return None
        for code, changed in _variations(real):
            if _chosen(changed()) != _MATH:
                return code
        return "math"


def _variations(call: Call) -> Iterator[tuple[str, Callable[[], Call]]]:
    """List calls in which one thing is otherwise."""
    if call.query.dim() != 4:
        yield "math_rank", lambda: _each(call, _four_dimensional)
    if call.dropout_p:
        yield "math_dropout", lambda: replace(call, dropout_p=0.0)
    if call.attn_mask is not None:
        yield "math_mask", lambda: replace(call, attn_mask=None)
    if call.enable_gqa:
        yield "math_gqa", lambda: _with_all_heads(call)
    yield "math_strides", lambda: _each(call, _contiguous)
    yield "math_gradient", lambda: _each(call, lambda tensor: tensor.detach())
    if call.query.dtype.itemsize > 2:
        yield "math_dtype", lambda: _each(call, lambda tensor: tensor.to(_half(tensor)))


def _each(call: Call, change: Callable[[Any], Any]) -> Call:
    tensors = {name: getattr(call, name) for name in _ORDER[:4]}
    return replace(call, **{name: None if tensor is None else change(tensor) for name, tensor in tensors.items()})


def _four_dimensional(tensor: Any) -> Any:
    while tensor.dim() < 4:
        tensor = tensor.unsqueeze(0)
    return tensor


def _contiguous(tensor: Any) -> Any:
    return tensor.contiguous()


def _half(tensor: Any) -> Any:
    import torch

    return torch.bfloat16 if tensor.is_floating_point() else tensor.dtype


def _with_all_heads(call: Call) -> Call:
    heads = call.query.size(-3)
    repeated = {
        name: tensor.repeat_interleave(heads // tensor.size(-3), -3)
        for name, tensor in (("key", call.key), ("value", call.value))
    }
    return replace(call, enable_gqa=False, **repeated)


def _chosen(call: Call) -> int:
    import torch

    return int(
        torch._fused_sdp_choice(
            call.query,
            call.key,
            call.value,
            attn_mask=call.attn_mask,
            dropout_p=call.dropout_p,
            is_causal=call.is_causal,
            scale=call.scale,
            enable_gqa=call.enable_gqa,
        )
    )


def _value(argument: Any) -> Any:
    meta = getattr(argument, "meta", None)
    return argument if meta is None else meta.get("example_value", meta.get("val"))


def _real(tensor: Any) -> Any:
    """Make a tensor of the same geometry; its values are of no account."""
    import torch

    if tensor is None:
        return None
    sizes, strides = [_whole(size) for size in tensor.shape], [_whole(stride) for stride in tensor.stride()]
    made = torch.empty_strided(sizes, strides, dtype=tensor.dtype, device=tensor.device)
    return made.requires_grad_(tensor.requires_grad)


def _bytes(call: Call) -> int:
    tensors = (call.query, call.key, call.value, call.attn_mask)
    return sum(_whole(tensor.numel()) * tensor.dtype.itemsize for tensor in tensors if tensor is not None)


def _whole(size: Any) -> int:
    return size if type(size) is int else int(size.node.hint)
