"""Copy tensors together, so that those that share memory share that of their copies.

An operation that writes to one of two overlapping tensors changes the other one, too. So a call that runs again, in
eager or in float64, needs arguments that overlap as the real ones do. Tensors beside each other in one memory do not.
"""

from collections.abc import Iterator, Sequence
from typing import Any

_ALIGNED = 16
"""Bytes at which the copy of a memory begins, as at a multiple of each dtype's size."""


def overlapping(values: Sequence[Any]) -> Iterator[list[int]]:
    """Yield the places of different tensors whose memory overlaps, a group each, in the order of the memory."""
    import torch

    spans: dict[int, tuple[int, int, int]] = {}
    for at, each in enumerate(values):
        # Subclasses and other layouts may have memory of which this knows nothing.
        is_plain = type(each) in (torch.Tensor, torch.nn.Parameter) and each.layout is torch.strided
        if is_plain and not each.is_meta and each.numel():
            # The same tensor twice is no overlap: both arguments have the same copy.
            spans.setdefault(id(each), (*_span(each), at))
    group: list[int] = []
    end = 0
    # In the order of addresses, so that each has to be compared with what came before it only.
    for begin, last, at in sorted(spans.values()):
        if begin >= end:
            if len(group) > 1:
                yield group
            group = []
        group.append(at)
        # A long tensor may reach past several short ones inside it.
        end = max(end, last)
    if len(group) > 1:
        yield group


def copied_together(tensors: Sequence[Any], dtype: Any = None) -> list[Any]:
    """Copy overlapping tensors, also to another dtype if all have one; gradients are not recorded.

    Each copy is a tensor of its own on the same memory, not a view: autograd takes a write to one for none to others.
    """
    import torch

    spans = list(map(_span, tensors))
    storage = tensors[0].untyped_storage()
    # Rounded down, so that the offset of each tensor is a whole number of its elements.
    begin = (min(first for first, _ in spans) - storage.data_ptr()) // _ALIGNED * _ALIGNED
    size = max(last for _, last in spans) - storage.data_ptr() - begin
    # As bytes, since the tensors may be of several dtypes.
    memory = torch.empty(0, dtype=torch.uint8, device=tensors[0].device).set_(storage, begin, (size,), (1,)).clone()
    if dtype is not None:
        memory = memory.view(tensors[0].dtype).to(dtype)
    made = []
    for each in tensors:
        offset = (each.data_ptr() - storage.data_ptr() - begin) // each.element_size()
        one = torch.empty(0, dtype=dtype or each.dtype, device=each.device)
        one = one.set_(memory.untyped_storage(), offset, each.shape, each.stride())
        # Bits of the view are not in its memory, so they are set again.
        if each.is_conj():
            one = one.conj()
        made.append(torch._neg_view(one) if each.is_neg() else one)
    return made


def bytes_spanned(tensor: Any) -> int:
    """Return the bytes from the first to the last element of a tensor: those of a copy with the same strides."""
    last = sum((each - 1) * stride for each, stride in zip(tensor.shape, tensor.stride(), strict=True))
    if not tensor.numel():
        return 0
    return int((last + 1) * tensor.element_size())


def _span(tensor: Any) -> tuple[int, int]:
    """Return the addresses from the first to the last element of a tensor."""
    return tensor.data_ptr(), tensor.data_ptr() + bytes_spanned(tensor)
