"""Compare tensors bit by bit: NaN equals itself, and dtypes that torch cannot compare are compared, too."""

from typing import Any


def same_bits(one: Any, other: Any) -> bool:
    """Whether two strided tensors have the same shape, dtype and bits; one that cannot be read counts as the same."""
    import torch

    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    try:
        return torch.equal(bits(one), bits(other))
    except RuntimeError:  # quantized, or without storage
        return True


def bits(tensor: Any) -> Any:
    """Return the bytes of a tensor's values."""
    import torch

    with torch._C.DisableTorchFunctionSubclass():
        # A conjugate or negative view has other values than its memory; `view` needs memory without gaps.
        return tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
