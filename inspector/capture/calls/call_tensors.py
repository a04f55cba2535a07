"""Make tensors from their descriptions on the command line."""

from collections.abc import Callable, Sequence
from typing import Any

from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.errors import TargetError
from ctrace.inspector.runs.options import LiteralInput, TensorInput, parse_input

_DYNAMIC_SIZES = (8, 12, 16, 20, 24, 28)
"""Sizes for dimensions named by a letter: distinct, so that no two are equal by chance; never 0 or 1, which torch
specializes on."""
_HIGHEST_INTEGER = 10
"""Random integers are small, so that they are valid as indices into most tables."""


def make_inputs(texts: Sequence[str]) -> Call:
    """Make the arguments that `--input` options describe.

    Raises:
        TargetError: one of them cannot be read.
    """
    letters: dict[str, int] = {}
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for spec in map(parse_input, texts):
        if isinstance(spec.value, LiteralInput):
            value = spec.value.value
        else:
            value = _tensor(spec.value, letters)
        if spec.name is None:
            args.append(value)
        else:
            kwargs[spec.name] = value
    return Call(tuple(args), kwargs)


def _tensor(spec: TensorInput, letters: dict[str, int]) -> Any:
    import torch

    for size in spec.sizes:
        if isinstance(size, str):
            # One letter is one size in all inputs, as the user means it.
            letters.setdefault(size, _DYNAMIC_SIZES[len(letters) % len(_DYNAMIC_SIZES)])
    sizes = [letters[size] if isinstance(size, str) else size for size in spec.sizes]
    dtype = getattr(torch, spec.dtype)
    if dtype.is_floating_point or dtype.is_complex:
        tensor = torch.randn(sizes, dtype=dtype)
    else:
        tensor = torch.randint(0, 2 if dtype is torch.bool else _HIGHEST_INTEGER, sizes, dtype=dtype)
    for dimension, size in enumerate(spec.sizes):
        if isinstance(size, str):
            torch._dynamo.mark_dynamic(tensor, dimension)
    return tensor


def resized(call: Call, dimension: int, size: int) -> Call:
    """Resize a dimension in every tensor where its size equals that of the first tensor; repeat or cut values.

    Raises:
        TargetError: no tensor has such a dimension.
    """
    having = [leaf for leaf in tensors(call) if -leaf.dim() <= dimension < leaf.dim()]
    if not having:
        raise TargetError(f"--vary {dimension}=...: no input has a dimension {dimension}", "count dimensions from 0")
    # Dimensions that are equal now, such as the batch of ids and of a mask, have to stay equal.
    old = having[0].shape[dimension]
    # A size of 0 has no values to repeat.
    if old == 0 < size:
        raise TargetError(f"--vary {dimension}=...: that dimension has size 0", "use inputs with at least one row")
    chosen = {id(leaf) for leaf in having if leaf.shape[dimension] == old}
    return mapped(call, lambda leaf: _repeated_rows(leaf, dimension, size) if id(leaf) in chosen else leaf)


def tensors(call: Call) -> list[Any]:
    """List the tensors among the arguments, in order."""
    import torch
    from torch.utils import _pytree

    return [leaf for leaf in _pytree.tree_leaves((call.args, call.kwargs)) if isinstance(leaf, torch.Tensor)]


def mapped(call: Call, change: Callable[[Any], Any]) -> Call:
    """Change every tensor among the arguments."""
    import torch
    from torch.utils import _pytree

    args, kwargs = _pytree.tree_map_only(torch.Tensor, change, (call.args, call.kwargs))
    return Call(args, kwargs)


_WIDEST = 8
"""How many times as large as its values the memory of a tensor may be, to be copied as a whole."""


def with_memory(tensor: Any, dtype: Any = None) -> Any:
    """Copy a tensor, also to another dtype, with its strides and what lies between its values: some operations look."""
    import torch

    plain = tensor.detach()
    dtype = dtype or plain.dtype
    # A subclass has no single storage to copy.
    if type(plain) is not torch.Tensor or not _has_gaps(plain):
        return plain.to(dtype, copy=True)
    if plain.untyped_storage().nbytes() > _WIDEST * plain.numel() * plain.element_size():
        return torch.empty_strided(plain.shape, plain.stride(), dtype=dtype, device=plain.device).copy_(plain)
    memory = torch.empty(0, dtype=plain.dtype, device=plain.device).set_(plain.untyped_storage())
    return memory.to(dtype, copy=True).as_strided(plain.shape, plain.stride(), plain.storage_offset())


def _has_gaps(tensor: Any) -> bool:
    """Whether there is memory between a tensor's values, none of which share any."""
    import torch

    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_conj() or tensor.is_neg():
        return False
    end = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        # The elements of this dimension lie inside of those counted so far, as those of an expanded tensor do.
        if size > 1 and stride < end:
            return False
        if size > 1:
            end = stride * size
    return bool(0 < tensor.numel() < end)


def _repeated_rows(tensor: Any, dimension: int, size: int) -> Any:
    import torch

    # Repeated values of the user's are valid, also as indices; random ones may not be.
    rows = torch.arange(size, device=tensor.device) % max(tensor.shape[dimension], 1)
    every_second = tensor.detach().index_select(dimension, rows)
    return every_second.requires_grad_(tensor.requires_grad)


def recast(tensor: Any, dtype: str) -> Any:
    """Cast a floating tensor to another dtype; return any other tensor unchanged."""
    import torch

    target = getattr(torch, dtype)
    if not tensor.is_floating_point() or tensor.dtype is target:
        return tensor
    return tensor.detach().to(target).requires_grad_(tensor.requires_grad)


def restrided(tensor: Any, stride: str) -> Any:
    """Change a tensor's strides but not its sizes; return a tensor that cannot have such strides unchanged."""
    import torch

    if tensor.layout is not torch.strided or not tensor.numel():
        return tensor
    changed = _LAYOUTS[stride](tensor.detach())
    same = changed is None or changed.stride() == tensor.stride()
    if same:
        return tensor
    return changed.requires_grad_(tensor.requires_grad)


def _transposed(tensor: Any) -> Any:
    if tensor.dim() > 1:
        return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)
    return None


def _noncontiguous(tensor: Any) -> Any:
    """Copy the tensor into every second element of a larger one."""
    if tensor.dim():
        return tensor.unsqueeze(-1).repeat_interleave(2, -1)[..., 0]
    return None


def _channels_last(tensor: Any) -> Any:
    import torch

    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    memory_format = formats.get(tensor.dim())
    if memory_format:
        return tensor.contiguous(memory_format=memory_format)
    return None


_LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "transposed": _transposed,
    "noncontiguous": _noncontiguous,
    "channels_last": _channels_last,
}


def requiring(tensor: Any, *, grad: bool) -> Any:
    """Set `requires_grad` of a floating tensor; return any other tensor unchanged."""
    if not tensor.is_floating_point() or tensor.requires_grad is grad:
        return tensor
    return tensor.detach().clone().requires_grad_(grad)
