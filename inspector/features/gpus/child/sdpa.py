"""Decompose `scaled_dot_product_attention` into the op that a CUDA build of torch would call on the target GPU.

C++ decomposes it differently for each kernel (2.11 to 2.13, aten/src/ATen/native/transformers/attention.cpp), and a
torch without CUDA has only the decomposition into matmuls. The Python dispatcher, under which AOTAutograd and Inductor
trace, prefers a Python kernel if there is one.

The kernel is chosen as `select_sdp_backend` does (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp and its
sdp_utils_cpp.h; 2.11 to 2.13, with cuDNN 9.19). The CPU build lacks that function, and other builds ask the device. A
test compares the choices with those of torch on an H100.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.inductor import attention_choice as attentionchoice

MATH, FLASH, EFFICIENT, CUDNN = 0, 1, 2, 3
"""Torch's numbers for the kernels (`torch.nn.attention.SDPBackend`)."""
_ORDER = [FLASH, EFFICIENT, MATH, CUDNN]
"""Torch's initial priority order; on a device that prefers cuDNN, torch moves cuDNN to the front at the first call."""


class SdpaCall(Struct, frozen=True):
    """The arguments of one call, and the compute capability of the device."""

    query: Any
    key: Any
    value: Any
    mask: Any
    dropout: float
    causal: bool
    gqa: bool
    capability: tuple[int, int]

    @property
    def tensors(self) -> tuple[Any, Any, Any]:
        """Queries, keys and values."""
        return self.query, self.key, self.value

    @property
    def trains(self) -> bool:
        """Whether a backward pass follows."""
        import torch

        return torch.is_grad_enabled() and any(each.requires_grad for each in self.tensors)

    @property
    def half(self) -> bool:
        """Whether the dtype has 16 bits."""
        return bool(self.query.dtype.itemsize == 2)


def chosen(call: SdpaCall) -> int:
    """Choose a kernel as torch does.

    Raises:
        RuntimeError: the user's `sdpa_kernel` allows no kernel that supports the call; the message is torch's.
    """
    for backend in _order(call.capability):
        # A kernel that this table does not have is passed over, as one that a newer torch may add.
        enabled, checks = _BACKENDS.get(backend, (_never, ()))
        if enabled() and all(check(call) for check in checks):
            return backend
    msg = "No available kernel. Aborting execution."
    raise RuntimeError(msg)


def _order(capability: tuple[int, int]) -> list[int]:
    import torch

    order = list(torch._C._get_sdp_priority_order())
    # A program may have set an order itself, which then holds.
    if order[: len(_ORDER)] == _ORDER and capability[0] in (9, 10) and not _deprioritized():
        return [CUDNN, FLASH, EFFICIENT, MATH]
    return order


def _deprioritized() -> bool:
    return os.environ.get("TORCH_CUDNN_SDPA_DEPRIORITIZED") == "1"


def _known(condition: Any) -> bool:
    """Evaluate a condition on sizes, which may be symbolic; return False if its value is unknown."""
    from torch.fx.experimental.symbolic_shapes import guard_or_false

    # Without a guard, so that the choice does not fix a size that is dynamic.
    return bool(guard_or_false(condition))


def _same(*sizes: Any) -> bool:
    return all(_known(size == sizes[0]) for size in sizes[1:])


def _four_dimensional(call: SdpaCall) -> bool:
    return all(each.dim() == 4 for each in call.tensors)


def _not_empty(call: SdpaCall) -> bool:
    return not any(_known(each.size(-2) == 0) for each in (call.query, call.key))


def _heads(call: SdpaCall, *, grouped: bool, same: bool = True) -> bool:
    """Require equal batch sizes, and numbers of heads that are equal or suit grouped-query attention (GQA).

    If `grouped` and the call enables GQA, the numbers of key heads and value heads must divide the number of query
    heads; `same` also requires as many key heads as value heads.
    """
    if not _same(*(each.size(0) for each in call.tensors)):
        return False
    queries, keys, values = (each.size(-3) for each in call.tensors)
    if not (call.gqa and grouped):
        return _same(queries, keys, values)
    if same:
        return _same(keys, values) and _known(queries % keys == 0)
    return _known(queries % keys == 0) and _known(queries % values == 0)


def _one_batch(call: SdpaCall) -> bool:
    return _heads(call, grouped=False)


def _one_batch_or_groups(call: SdpaCall) -> bool:
    return _heads(call, grouped=True)


def _one_batch_or_any_groups(call: SdpaCall) -> bool:
    return _heads(call, grouped=True, same=False)


def _mask_dense(call: SdpaCall) -> bool:
    # The kernels read rows of a mask as they lie in memory.
    return call.mask is None or _known(call.mask.stride(-1) == 1)


def _dense(call: SdpaCall) -> bool:
    return all(_known(each.stride(-1) == 1) for each in call.tensors) and _mask_dense(call)


def _dense_or_narrow(call: SdpaCall) -> bool:
    dense = all(_known(each.stride(-1) == 1) for each in call.tensors) or _known(call.query.size(-1) == 1)
    return dense and _mask_dense(call)


def _is_half(call: SdpaCall) -> bool:
    """Require a 16-bit dtype that the device supports, the same for queries, keys and values."""
    import torch

    formats = [torch.float16]
    if call.capability[0] >= 8:  # Tensor Cores compute in bfloat16 from Ampere on
        formats.append(torch.bfloat16)
    return call.query.dtype in formats and _one_format(call)


def _one_format(call: SdpaCall) -> bool:
    return len({each.dtype for each in call.tensors}) == 1


def _is_half_or_single(call: SdpaCall) -> bool:
    import torch

    formats = {torch.float16, torch.float32} | ({torch.bfloat16} if call.capability[0] >= 8 else set())
    return call.query.dtype in formats and _one_format(call)


def _from_ampere(call: SdpaCall) -> bool:
    return call.capability >= (8, 0)


def _no_mask(call: SdpaCall) -> bool:
    return call.mask is None


def _flash_width(call: SdpaCall) -> bool:
    widths = [each.size(-1) for each in call.tensors]
    return _same(*widths) and _known(widths[0] <= 256)


def _flash_width_trained(call: SdpaCall) -> bool:
    """If training on compute capability 8.6 to 8.9 or 12.x, require a width whose backward fits into shared memory."""
    small = (8, 6) <= call.capability <= (8, 9) or call.capability[0] == 12
    if not (call.trains and small):
        return True
    width = call.query.size(-1)
    return _known(width <= 192) or (not call.dropout and _known(width > 224))


def _square_if_causal(call: SdpaCall) -> bool:
    # FlashAttention aligns a causal mask at the lower right, and torch at the upper left: only squares are alike.
    return not call.causal or _same(call.query.size(-2), call.key.size(-2))


def _alignment(call: SdpaCall) -> int:
    """Return the number that CUTLASS requires widths to be a multiple of (`minimum_gemm_alignment`)."""
    if call.capability[0] >= 8:
        if call.half:
            return 8
        return 4
    # Tensor Cores of compute capability 7.x take half precision only; older GPUs have none.
    if call.capability[0] >= 7 and call.half:
        return 8
    return 1


def _efficient_width(call: SdpaCall) -> bool:
    queries, keys, values = (each.size(-1) for each in call.tensors)
    # Keys are as wide as queries, which is asked for below.
    aligned = all(_known(width % _alignment(call) == 0) and _known(width > 0) for width in (queries, values))
    return aligned and _same(queries, keys)


def _mask_fits(call: SdpaCall) -> bool:
    """Require no mask, or one without gradient that has two or four dimensions and broadcasts to the scores."""
    if call.mask is None:
        return True
    # cuDNN computes no gradient of a mask.
    if call.mask.requires_grad:
        return False
    full = (*call.query.shape[:3], call.key.size(2))
    broadcast = all(
        _known(dim == 1) or _same(dim, size)
        for dim, size in zip(reversed(call.mask.shape), reversed(full), strict=False)
    )
    return call.mask.dim() in (2, 4) and broadcast


def _deterministic_enough(_call: SdpaCall) -> bool:
    import torch

    return not torch.are_deterministic_algorithms_enabled() or torch.is_deterministic_algorithms_warn_only_enabled()


def _cudnn_width(call: SdpaCall) -> bool:
    most = 256 if call.capability == (9, 0) else 128
    widths = [each.size(-1) for each in (call.query, call.value)]
    return all(_known(width <= most) and _known(width % 8 == 0) for width in widths)


def _cudnn_lengths(call: SdpaCall) -> bool:
    one = _known(call.query.size(-2) == 1)
    return not _known(call.key.size(-2) == 1) and not (call.dropout and one)


def _flag(name: str) -> Callable[[], bool]:
    """Return a function that reads one of the flags that `sdpa_kernel` and `torch.backends.cuda` set."""

    def enabled() -> bool:
        import torch

        return bool(getattr(torch._C, f"_get_{name}_sdp_enabled")())

    return enabled


def _never() -> bool:
    return False


_BACKENDS: dict[int, tuple[Callable[[], bool], tuple[Callable[[SdpaCall], bool], ...]]] = {
    MATH: (_flag("math"), ()),
    FLASH: (
        _flag("flash"),
        (
            _four_dimensional, _no_mask, _flash_width, _from_ampere, _flash_width_trained, _square_if_causal, _is_half,
            _one_batch_or_groups, _not_empty, _dense_or_narrow,
        ),
    ),
    EFFICIENT: (
        _flag("mem_efficient"),
        (_four_dimensional, _efficient_width, _not_empty, _dense, _one_batch, _is_half_or_single),
    ),
    CUDNN: (
        _flag("cudnn"),
        (
            _four_dimensional, _deterministic_enough, _is_half, _mask_fits, _from_ampere, _not_empty,
            _dense_or_narrow, _one_batch_or_any_groups, _cudnn_width, _cudnn_lengths,
        ),
    ),
}  # fmt: skip


_FLASH_ALIGNMENT = 8
"""Elements: flash attention pads the head's width to a multiple of it."""
_MASK_ALIGNMENT = 8
"""Elements: strides of a mask that the fused kernels take."""
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
    # Torch keeps the kernel that it chose for each key.
    op._dispatch_cache.clear()
    try:
        yield
    finally:
        del op.py_kernels[key]
        if before is not None:
            op.py_kernels[key] = before
        op._dispatch_cache.clear()


def _kernel_on_target(call: attentionchoice.AttentionCall, capability: tuple[int, int]) -> int:
    """Return the kernel for the target, for ctrace's explanation of why there is no fused kernel."""
    tensors = (call.query, call.key, call.value, call.attn_mask)
    return chosen(SdpaCall(*tensors, call.dropout_p, call.is_causal, call.enable_gqa, capability))


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
        call = SdpaCall(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa, self._capability)
        # Nested tensors have kernels and rules of their own, which C++ follows.
        if query.device.type != "cuda" or query.is_nested:
            return _in_c(call, scale)
        return _WAYS.get(chosen(call), _by_math)(call, scale)


def _in_c(call: SdpaCall, scale: float | None) -> Any:
    import torch

    key = torch.DispatchKey.CompositeImplicitAutograd
    op: Any = torch.ops.aten.scaled_dot_product_attention.default
    arguments = (*call.tensors, call.mask, call.dropout, call.causal)
    return op._op_dk(key, *arguments, scale=scale, enable_gqa=call.gqa)


def _by_cudnn(call: SdpaCall, scale: float | None) -> Any:
    import torch

    mask = _additive(call, _CUDNN_LOWEST)
    op = torch.ops.aten._scaled_dot_product_cudnn_attention.default
    return op(*call.tensors, mask, call.trains, call.dropout, call.causal, False, scale=scale)[0]


def _by_flash(call: SdpaCall, scale: float | None) -> Any:
    """Call flash attention with the width padded to the kernel's alignment; the scale uses the original width."""
    import torch

    width = call.query.size(-1)
    padded = [_padded(each, _FLASH_ALIGNMENT) for each in call.tensors]
    op = torch.ops.aten._scaled_dot_product_flash_attention.default
    out = op(*padded, call.dropout, call.causal, False, scale=_scale_of(width) if scale is None else scale)[0]
    # Without a slice where nothing was padded: it would be a node of the graph.
    if out.size(-1) == width:
        return out
    return out[..., :width]


def _scale_of(width: Any) -> Any:
    """Return the scale for a width, which may be symbolic, as C++ computes it."""
    import torch

    # `math.sqrt` would ask for the value of a symbolic width, and guard on it.
    return 1.0 / torch.sym_sqrt(width)


def _padded(tensor: Any, alignment: int) -> Any:
    import torch

    last = tensor.size(-1)
    if last % alignment == 0:
        return tensor
    return torch.nn.functional.pad(tensor, (0, alignment - last % alignment))


def _by_efficient(call: SdpaCall, scale: float | None) -> Any:
    import torch

    mask = _additive(call)
    if mask is not None:
        # After padding, which copies: an expanded mask would be copied at its full size.
        mask = _aligned(mask).expand(*call.query.shape[:3], call.key.size(2))
    op = torch.ops.aten._scaled_dot_product_efficient_attention.default
    return op(*call.tensors, mask, call.trains, call.dropout, call.causal, scale=scale)[0]


def _additive(call: SdpaCall, lowest: float = float("-inf")) -> Any:
    """Convert a boolean mask into one that is added to the scores; return any other mask unchanged."""
    import torch

    mask = call.mask
    if mask is None or mask.dtype != torch.bool:
        return mask
    # In the dtype of the queries, to which the scores are added.
    return torch.where(mask, 0.0, torch.scalar_tensor(lowest, dtype=call.query.dtype, device=mask.device))


def _aligned(mask: Any) -> Any:
    """Return the mask, copied if its rows do not start at multiples of the kernel's vector size."""
    import torch

    aligned = all(stride % _MASK_ALIGNMENT == 0 for stride in mask.stride()[:-1]) and mask.stride(-1) == 1
    if aligned:
        return mask
    last = mask.size(-1)
    # The values stay, and only the distance of the rows grows.
    return torch.nn.functional.pad(mask, (0, _MASK_ALIGNMENT - last % _MASK_ALIGNMENT))[..., :last]


def _by_math(call: SdpaCall, scale: float | None) -> Any:
    import torch

    op = torch.ops.aten._scaled_dot_product_attention_math.default
    return op(*call.tensors, _additive(call), call.dropout, call.causal, None, scale=scale, enable_gqa=call.gqa)[0]


_WAYS = {CUDNN: _by_cudnn, FLASH: _by_flash, EFFICIENT: _by_efficient}
