"""Find out why torch has no fused kernel for a call of `scaled_dot_product_attention`, by asking torch.

`torch._fused_sdp_choice` (2.11 to 2.13) returns the kernel that a call would take; 0 is the math kernel (matmuls and a
softmax). Call it with tensors of the same sizes, strides and dtypes, and change one thing at a time.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

# `torch._C._SDPBackend.MATH` (2.11 to 2.13); torch answers with its number.
_MATH = 0
_LARGEST = 1 << 28
"""Maximum bytes to allocate for the tensors of one call."""
_ORDER = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


class AttentionCall(Struct, frozen=True):
    """The arguments of one call, with fake tensors."""

    query: Any
    key: Any
    value: Any
    attn_mask: Any = None
    dropout_p: float = 0.0
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False

    @classmethod
    def of(cls, node: Any) -> "AttentionCall":
        """Read the arguments of a call from its node in Dynamo's graph."""
        arguments = {**dict(zip(_ORDER, node.args, strict=False)), **node.kwargs}
        return cls(**{name: _value(each) for name, each in arguments.items()})

    @classmethod
    def within(cls, node: Any) -> "AttentionCall":
        """Derive the call inside `multi_head_attention_forward` from its node, without masks.

        The node's inputs have the shape (length, batch, width), and its fifth argument is the number of heads (2.11 to
        2.13, nn/functional.py).
        """
        tensors = [_value(each) for each in node.args[:3]]
        heads = node.args[4]
        # As the function itself reshapes them: batch, heads, length, width of a head.
        query, key, value = (
            each.new_empty((each.size(1), heads, each.size(0), tensors[0].size(2) // heads)) for each in tensors
        )
        dropout = 0.0
        if node.kwargs.get("training", True):
            # `dropout_p` is the eleventh argument of `multi_head_attention_forward` (nn/functional.py).
            dropout = node.args[10]
        return cls(query, key, value, dropout_p=dropout)


def why_math(call: AttentionCall) -> tuple[str, ...]:
    """Return the codes of the changes to a call that give a fused kernel: one code if possible, `math` if none does.

    `math_unasked` means that the call is too large to try, and `math_asked_for` that torch has a fused kernel for it.
    """
    from torch._guards import tracing
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    # The sizes are those of the program's own call, which may be larger than this machine.
    if _bytes(call) > _LARGEST:
        return ("math_unasked",)
    # The answer depends on real strides and alignment, so the call is asked with real tensors although Inductor is at
    # work in fake mode.
    with tracing(None), unset_fake_temporarily():
        real = _each(call, _real)
        if chosen_kernel(real) != _MATH:
            return ("math_asked_for",)
        for code, change in _CHANGES.items():
            if chosen_kernel(change(real)) != _MATH:
                return (code,)
        # No single change helps: two obstacles hide each other.
        return _together(real)


def _together(call: AttentionCall) -> tuple[str, ...]:
    """Add one change after another until torch chooses a fused kernel; return the codes of all of them, or `math`."""
    codes = []
    for code, change in _CHANGES.items():
        changed = change(call)
        # A change that does not apply is no reason, even if it is on the way to a fused kernel.
        if changed is not call:
            call = changed
            codes.append(code)
            if chosen_kernel(call) != _MATH:
                return tuple(codes)
    return ("math",)


def _each(call: AttentionCall, change: Callable[[Any], Any]) -> AttentionCall:
    tensors: dict[str, Any] = {name: getattr(call, name) for name in _ORDER[:4]}
    changed: dict[str, Any] = {name: tensor if tensor is None else change(tensor) for name, tensor in tensors.items()}
    return replace(call, **changed)


def _four_dimensional(call: AttentionCall) -> AttentionCall:
    more = call.query.dim() - 4
    if more > 0:
        return _each(call, lambda tensor: tensor.flatten(0, more) if tensor.dim() > 4 else tensor)
    if not more:
        return call
    return _each(call, lambda tensor: tensor[(None,) * (4 - tensor.dim())])


def _without_dropout(call: AttentionCall) -> AttentionCall:
    if call.dropout_p:
        return replace(call, dropout_p=0.0)
    return call


def _without_mask(call: AttentionCall) -> AttentionCall:
    if call.attn_mask is None:
        return call
    return replace(call, attn_mask=None)


def _with_all_heads(call: AttentionCall) -> AttentionCall:
    if not call.enable_gqa:
        return call
    # With `enable_gqa`, each head of keys serves several of queries.
    heads = call.query.size(-3)
    key, value = (each.repeat_interleave(heads // each.size(-3), -3) for each in (call.key, call.value))
    return replace(call, key=key, value=value, enable_gqa=False)


def _contiguous(call: AttentionCall) -> AttentionCall:
    tensors = (call.query, call.key, call.value)
    if all(each.is_contiguous() for each in tensors):
        return call
    return _each(call, lambda each: each.contiguous())


def _with_one_width(call: AttentionCall) -> AttentionCall:
    width = call.query.size(-1)
    if call.value.size(-1) == width:
        return call
    return replace(call, value=call.value.new_empty((*call.value.shape[:-1], width)))


def _with_one_batch(call: AttentionCall) -> AttentionCall:
    """Expand tensors that are broadcast over batches or heads."""
    import torch

    tensors = (call.query, call.key, call.value)
    shape = None
    # With `enable_gqa`, keys and values have fewer heads on purpose.
    if not call.enable_gqa:
        shape = torch.broadcast_shapes(*(tensor.shape[:-2] for tensor in tensors))
    if shape is None or all(tensor.shape[:-2] == shape for tensor in tensors):
        return call
    query, key, value = (tensor.expand(*shape, *tensor.shape[-2:]).contiguous() for tensor in tensors)
    return replace(call, query=query, key=key, value=value)


def _in_half(call: AttentionCall) -> AttentionCall:
    import torch

    if call.query.dtype.itemsize <= 2:
        return call
    return _each(call, lambda each: each.to(torch.bfloat16) if each.is_floating_point() else each)


# Cheap and exact changes come first; a lower precision comes last, since it changes the values.
_CHANGES: dict[str, Callable[[AttentionCall], AttentionCall]] = {
    "math_rank": _four_dimensional,
    "math_dropout": _without_dropout,
    "math_mask": _without_mask,
    "math_gqa": _with_all_heads,
    "math_strides": _contiguous,
    "math_width": _with_one_width,
    "math_batch": _with_one_batch,
    "math_dtype": _in_half,
}
"""The changes to try, keyed by code; a change that does not apply returns the same call."""


def chosen_kernel(call: AttentionCall) -> int:
    """Ask torch for its choice; for a target GPU, `gpus/child/sdpa.py` answers."""
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
    if meta is None:
        return argument
    # Dynamo's graph has the first, a graph of AOTAutograd the second.
    return meta.get("example_value", meta.get("val"))


def _real(tensor: Any) -> Any:
    """Make a real tensor with the same sizes and strides; its values do not matter."""
    import torch

    sizes, strides = [whole(size) for size in tensor.shape], [whole(stride) for stride in tensor.stride()]
    made = torch.empty_strided(sizes, strides, dtype=tensor.dtype, device=tensor.device)
    # Torch's choice depends on it: some fused kernels have no backward (sdp_utils_cpp.h, 2.13).
    return made.requires_grad_(tensor.requires_grad)


def _bytes(call: AttentionCall) -> int:
    tensors = (call.query, call.key, call.value, call.attn_mask)
    return sum(whole(tensor.numel()) * tensor.dtype.itemsize for tensor in tensors if tensor is not None)


def whole(size: Any) -> int:
    """Return a size as a number: for a symbolic size, its value in the example."""
    if type(size) is int:
        return size
    return int(size.node.hint)
