"""Two promises, bit for bit: the same call twice, and a row alone and in its batch."""

import zlib
from typing import Any

from msgspec.structs import replace

from ctrace.inspector.capture.calls.call_tensors import mapped, tensors
from ctrace.inspector.capture.calls.calling import CallResults
from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.facts.accuracy_facts import Promises
from ctrace.inspector.features.accuracy.child.watched_kernels import Listener, WatchedGraph


class Digests(Listener):
    """Keeps a checksum of what each kernel wrote."""

    def __init__(self) -> None:
        self.found: list[tuple[str, tuple[int, ...]]] = []

    def called(self, graph: WatchedGraph, number: int, names: dict[str, Any]) -> None:
        """Add the checksums of a call."""
        call = graph.calls[number]
        values = [names[each] for each in dict.fromkeys(call.writes.values()) if each in names]
        self.found.append((call.name, tuple(_checksum(each) for each in values)))


def run_to_run(promises: Promises, first: Digests, second: Digests) -> Promises:
    """Compare two equal calls."""
    for (name, one), (_, other) in zip(first.found, second.found, strict=False):
        if one != other:
            return replace(promises, run_to_run=False, run_to_run_broken_by=name)
    return replace(promises, run_to_run=len(first.found) == len(second.found))


def row_alone(call: Call) -> Call | None:
    """Return a call with the first row of each tensor that has the size of the batch; None: there is no batch."""
    rows = [each.shape[0] for each in tensors(call) if each.dim()]
    if not rows or rows[0] < 2:
        return None
    return mapped(call, lambda each: each[:1].clone() if each.dim() and each.shape[0] == rows[0] else each)


def batch_invariant(promises: Promises, whole: CallResults, alone: CallResults, batch: int) -> Promises:
    """Compare the first row of each result with that of a call with this row."""
    import torch
    from torch.utils import _pytree

    pairs = [
        (one[:1], other)
        for one, other in zip(_pytree.tree_leaves(whole.outputs), _pytree.tree_leaves(alone.outputs), strict=False)
        if isinstance(one, torch.Tensor) and one.dim() and one.shape[0] == batch and one[:1].shape == other.shape
    ]
    if not pairs:
        return promises
    return replace(promises, batch_invariant=all(_checksum(one) == _checksum(other) for one, other in pairs))


def _checksum(value: Any) -> int:
    import torch

    if isinstance(value, tuple | list):
        return zlib.crc32(repr(list(map(_checksum, value))).encode())
    if not isinstance(value, torch.Tensor):
        return zlib.crc32(repr(value).encode())
    flat = value.detach().cpu().contiguous().reshape(-1)
    if not flat.numel():
        return 0
    return zlib.crc32(flat.view(torch.uint8).numpy().tobytes())
