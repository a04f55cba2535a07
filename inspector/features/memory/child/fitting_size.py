"""Find the largest input that fits, by running steps of growing size."""

from collections.abc import Callable
from typing import Any

from ctrace.inspector.capture.calls.call_tensors import mapped, resized, tensors
from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.memory_facts import AliveMemory, TriedSize

_MOST_SIZE = 1 << 24
_FAR = 64


def sized(call: Call, what: str, size: int) -> Call:
    """Resize a dimension of the inputs: `batch` is the first of each tensor that has that of the first one.

    Raises:
        TargetError: no input has the dimension.
    """
    old = size_of(call, what)
    if what == "batch":
        return resized(call, 0, size)
    dimension = int(what.partition(".")[2])

    def change(tensor: Any) -> Any:
        if dimension >= tensor.dim() or tensor.shape[dimension] != old:
            return tensor
        return _resized(tensor, dimension, size)

    return mapped(call, change)


def size_of(call: Call, what: str) -> int:
    """Return the size that a dimension has.

    Raises:
        TargetError: no input has the dimension.
    """
    given = tensors(call)
    index, dimension = (0, 0) if what == "batch" else map(int, what.split("."))
    if index >= len(given) or dimension >= given[index].dim():
        raise TargetError(f"--fit {what}: no input has such a dimension", "count inputs and dimensions from 0")
    return max(int(given[index].shape[dimension]), 1)


def _resized(tensor: Any, dimension: int, size: int) -> Any:
    import torch

    rows = torch.arange(size, device=tensor.device) % max(tensor.shape[dimension], 1)
    return tensor.detach().index_select(dimension, rows).requires_grad_(tensor.requires_grad)


class SizeSearch:
    """Finds the largest size whose peak is below a limit.

    Memory is nearly linear in a size, so each next size is where a line through two known ones meets the limit. That
    takes about five runs, and the result is exact: it fits, and the next larger size does not.
    """

    def __init__(self, run: Callable[[int], tuple[int, AliveMemory | None]], limit: int) -> None:
        """Take what runs a step of a size, and returns its peak and the group that holds most then."""
        self._run = run
        self._limit = limit
        self._peaks: dict[int, int] = {}
        self._over: tuple[int, AliveMemory | None] | None = None

    @property
    def tried(self) -> tuple[TriedSize, ...]:
        """Return each size that was run, with its peak."""
        return tuple(TriedSize(size, peak) for size, peak in self._peaks.items())

    @property
    def over(self) -> int | None:
        """The peak at the smallest size that does not fit."""
        return None if self._over is None else self._peaks[self._over[0]]

    @property
    def limiting(self) -> AliveMemory | None:
        """What holds the most there."""
        return None if self._over is None else self._over[1]

    def peak(self, size: int | None) -> int | None:
        """Return the peak of a size that was run."""
        return None if size is None else self._peaks.get(size)

    def largest(self, first: int) -> int | None:
        """Return the largest size that fits; 0: none does; None: all that were tried do."""
        fits, size = 0, first
        while self._fits(size):
            if size >= _MOST_SIZE:
                return None
            following = max(self._meets_limit(fits, size) + 1, size + max(size // 20, 1)) if fits else size * 2
            # The line through two small sizes may lead too far: the peak moves to another part of the step.
            fits, size = size, min(following, _MOST_SIZE)
        return self._between(fits, size)

    def _between(self, fits: int, over: int) -> int:
        """Return the largest size that fits, from one that does (or 0) and one that does not."""
        halves = False
        while over - fits > 1:
            middle = (fits + over) // 2 if halves or not fits else self._meets_limit(fits, over)
            middle = min(max(middle, fits + 1), over - 1)
            halves = not halves and over - fits > _FAR  # where memory is not linear, every second step halves
            if self._fits(middle):
                fits = middle
            else:
                over = middle
        return fits

    def _meets_limit(self, one: int, other: int) -> int:
        """Return the last size below the limit on the line through two known sizes."""
        slope = (self._peaks[other] - self._peaks[one]) / (other - one)
        if slope <= 0:
            return other * 2
        return int(one + (self._limit - self._peaks[one]) / slope)

    def _fits(self, size: int) -> bool:
        peak, most = self._run(size)
        self._peaks[size] = peak
        if peak > self._limit and (self._over is None or size < self._over[0]):
            self._over = size, most
        return peak <= self._limit
