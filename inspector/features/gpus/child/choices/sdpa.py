"""Decompose `scaled_dot_product_attention` into the op that a CUDA build of torch would call on the target GPU.

C++ decomposes it differently for each kernel (2.11 to 2.13, aten/src/ATen/native/transformers/attention.cpp), and a
torch without CUDA has only the decomposition into matmuls. The Python dispatcher, under which AOTAutograd and Inductor
trace, prefers a Python kernel if there is one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ctrace.inspector.capture.attention import choice as attentionchoice
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.features.gpus.child.choices.sdpa_choice import CUDNN, EFFICIENT, FLASH, Call, chosen

_FLASH_ALIGNMENT = 8
_MASK_ALIGNMENT = 8
_CUDNN_LOWEST = -65504.0
"""The value that cuDNN gets instead of minus infinity."""


@contextmanager
def attention_as_on(capability: tuple[int, int]) -> Iterator[None]:
    """Decompose attention on CUDA tensors, and choose its kernel, as on a device of this compute capability."""
    import torch

    op = torch.ops.aten.scaled_dot_product_attention.default
    with (
        _kernel(op, torch.DispatchKey.CompositeImplicitAutograd, _Attention(capability)),
        patched(attentionchoice, "chosen_kernel", lambda call: _kernel_on_target(call, capability)),
    ):
        yield


@contextmanager
def _kernel(op: Any, key: Any, kernel: Any) -> Iterator[None]:
    """Register a Python kernel for `op` during the block; afterwards, restore torch's own if there was one."""
    before = op.py_kernels.get(key)
    op.py_kernels[key] = kernel
    op._dispatch_cache.clear()
    try:
        yield
    finally:
        del op.py_kernels[key]
        if before is not None:
            op.py_kernels[key] = before
        op._dispatch_cache.clear()


def _kernel_on_target(call: attentionchoice.Call, capability: tuple[int, int]) -> int:
    """Return the kernel for the target, for ctrace's explanation of why there is no fused kernel."""
    tensors = (call.query, call.key, call.value, call.attn_mask)
    return chosen(Call(*tensors, call.dropout_p, call.is_causal, call.enable_gqa, capability))


class _Attention:
    """A Python kernel of `scaled_dot_product_attention`."""

    def __init__(self, capability: tuple[int, int]) -> None:
        self._capability = capability

    def __call__(
        self,
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        call = Call(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa, self._capability)
        if query.device.type != "cuda" or query.is_nested:
            return _in_c(call, scale)
        return _WAYS.get(chosen(call), _by_math)(call, scale)


def _in_c(call: Call, scale: float | None) -> Any:
    import torch

    key = torch.DispatchKey.CompositeImplicitAutograd
    op: Any = torch.ops.aten.scaled_dot_product_attention.default
    arguments = (*call.tensors, call.mask, call.dropout, call.causal)
    return op._op_dk(key, *arguments, scale=scale, enable_gqa=call.gqa)


def _by_cudnn(call: Call, scale: float | None) -> Any:
    import torch

    mask = _additive(call, _CUDNN_LOWEST)
    op = torch.ops.aten._scaled_dot_product_cudnn_attention.default
    return op(*call.tensors, mask, call.trains, call.dropout, call.causal, False, scale=scale)[0]


def _by_flash(call: Call, scale: float | None) -> Any:
    """Call flash attention with the width padded to the kernel's alignment; the scale uses the original width."""
    import torch

    width = call.query.size(-1)
    padded = [_padded(each, _FLASH_ALIGNMENT) for each in call.tensors]
    op = torch.ops.aten._scaled_dot_product_flash_attention.default
    out = op(*padded, call.dropout, call.causal, False, scale=_scale_of(width) if scale is None else scale)[0]
    return out if out.size(-1) == width else out[..., :width]


def _scale_of(width: Any) -> Any:
    """Return the scale for a width, which may be symbolic, as C++ computes it."""
    import torch

    return 1.0 / torch.sym_sqrt(width)


def _padded(tensor: Any, alignment: int) -> Any:
    import torch

    last = tensor.size(-1)
    if last % alignment == 0:
        return tensor
    return torch.nn.functional.pad(tensor, (0, alignment - last % alignment))


def _by_efficient(call: Call, scale: float | None) -> Any:
    import torch

    mask = _additive(call)
    if mask is not None:
        mask = _aligned(mask).expand(*call.query.shape[:3], call.key.size(2))
    op = torch.ops.aten._scaled_dot_product_efficient_attention.default
    return op(*call.tensors, mask, call.trains, call.dropout, call.causal, scale=scale)[0]


def _additive(call: Call, lowest: float = float("-inf")) -> Any:
    """Convert a boolean mask into one that is added to the scores; return any other mask unchanged."""
    import torch

    mask = call.mask
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.where(mask, 0.0, torch.scalar_tensor(lowest, dtype=call.query.dtype, device=mask.device))


def _aligned(mask: Any) -> Any:
    """Return the mask, copied if its rows do not start at multiples of the kernel's vector size."""
    import torch

    aligned = all(stride % _MASK_ALIGNMENT == 0 for stride in mask.stride()[:-1]) and mask.stride(-1) == 1
    if aligned:
        return mask
    last = mask.size(-1)
    return torch.nn.functional.pad(mask, (0, _MASK_ALIGNMENT - last % _MASK_ALIGNMENT))[..., :last]


def _by_math(call: Call, scale: float | None) -> Any:
    import torch

    op = torch.ops.aten._scaled_dot_product_attention_math.default
    return op(*call.tensors, _additive(call), call.dropout, call.causal, None, scale=scale, enable_gqa=call.gqa)[0]


_WAYS = {CUDNN: _by_cudnn, FLASH: _by_flash, EFFICIENT: _by_efficient}
