"""Copy tensors that are needed after a later call: large ones into a file, so that both need not fit into memory."""

import mmap
import tempfile
from typing import Any

_LARGE = 16 << 20
"""The size from which a file holds a tensor, in bytes."""


def copy_of(tensor: Any) -> Any:
    """Copy a tensor without its autograd history."""
    plain = tensor.detach()
    if not _fits_file(plain):
        return plain.clone()
    try:
        return _in_file(plain)
    except OSError:  # such as a full disk
        return plain.clone()


def _fits_file(tensor: Any) -> bool:
    import torch

    is_plain = type(tensor) is torch.Tensor and tensor.device.type == "cpu" and tensor.layout is torch.strided
    if not is_plain or tensor.is_quantized or tensor.is_conj() or tensor.is_neg():
        return False
    return bool(tensor.is_contiguous() and tensor.numel() * tensor.element_size() >= _LARGE)


def _in_file(tensor: Any) -> Any:
    """Write a tensor to a file without a name, and map that: its pages are read when they are needed.

    Raises:
        OSError: it cannot be written.
    """
    import torch

    raw = memoryview(tensor.reshape(-1).view(torch.uint8).numpy())
    with tempfile.TemporaryFile(buffering=0) as file:
        while raw:
            raw = raw[file.write(raw) :]
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    return torch.frombuffer(mapped, dtype=tensor.dtype).view(tensor.shape)
