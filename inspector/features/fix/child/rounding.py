"""Compare the calls of a changed target with those of the unchanged one within rounding, by float64 as the reference.

The unchanged target's run writes, for each call, its values, the same call in float64, and calls that round every
operation at random; the changed target's run reads them. Both are runs of one command, in a private folder.
"""

import copy
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from ctrace.inspector.capture.calls.tensors import tensors
from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.capture.comparing.arithmetic import Noisy, Watched
from ctrace.inspector.capture.comparing.float64 import Float64
from ctrace.inspector.capture.comparing.judgement import Judgement, judged
from ctrace.inspector.capture.comparing.precision import FLOAT32, coarser, precision_of
from ctrace.inspector.capture.comparing.results import agree, rms, wide
from ctrace.inspector.capture.isolation.random_states import RandomStates
from ctrace.inspector.capture.isolation.unnoticed import unnoticed
from ctrace.inspector.capture.state.copies import copied

_NOISY = 2
Gradients = Callable[[Any, Call, Any], list[tuple[str, Any]] | None]


class Values(Struct, frozen=True):
    """The floating values of a call."""

    outputs: list[Any]
    gradients: list[Any]


def values_of(subject: Any, call: Call, outputs: Any, gradients: list[tuple[str, Any]] | None) -> Values:
    """Return copies of all floating values that a call returned or may have changed, in order."""
    import torch
    from torch.utils import _pytree

    def floats(value: Any) -> list[Any]:
        leaves = [torch.tensor(leaf) if isinstance(leaf, float) else leaf for leaf in _pytree.tree_leaves(value)]
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and precision_of(leaf.dtype) is not None]
        return [leaf.detach().as_subclass(torch.Tensor).to_dense().clone() for leaf in tensors]

    buffers = list(subject.buffers()) if isinstance(subject, torch.nn.Module) else []
    return Values(floats([outputs, tensors(call), buffers]), floats([each for _, each in gradients or []]))


class Reference:
    """Writes the values that a later run compares with."""

    def __init__(self, folder: str, subject: Any, call: Call) -> None:
        self._folder = Path(folder)
        self._random = RandomStates()
        self._before: tuple[Any, Call] | None = None
        """The subject and the arguments before the call; None: they cannot be copied."""
        with suppress(Exception):  # only equal values pass then
            self._before = copy.deepcopy(subject), copied(call)

    def write(self, name: str, values: Values, gradients: Gradients) -> None:
        """Write the values of a call, of the same call in float64, and of calls that are rounded at random."""
        import torch

        others = [self._again(Float64(), gradients), *(self._again(Noisy(seed), gradients) for seed in range(_NOISY))]
        kept = [None if each is None else [each.outputs, each.gradients] for each in others]
        torch.save([[values.outputs, values.gradients], kept], self._folder / name)

    def _again(self, arithmetic: Watched, gradients: Gradients) -> Values | None:
        """Call a copy with different arithmetic; None: that is impossible."""
        if self._before is None:
            return None
        try:
            with unnoticed():
                self._random.restore()
                subject, call = self._before
                subject, call = arithmetic.model(copy.deepcopy(subject)), arithmetic.call(copied(call))
                with arithmetic.active():
                    outputs = subject(*call.args, **call.kwargs)
                    found = gradients(subject, call, outputs)
                return values_of(subject, call, outputs, found)
        except Exception:
            return None  # there is no reference then, and only equal values pass


def unexplained(folder: str, name: str, values: Values) -> str:
    """Return how a call differs by more than rounding from the other run's; empty: it does not."""
    import torch

    path = Path(folder) / name
    if not path.exists():
        return "there is nothing to compare with"
    before, others = torch.load(path, weights_only=True)
    for group, now in enumerate((values.outputs, values.gradients)):
        what = ("value", "gradient")[group]
        if len(before[group]) != len(now):
            return f"{len(before[group])} {what}s before, {len(now)} after"
        for index, (one, other) in enumerate(zip(before[group], now, strict=True)):
            exact = [each[group][index] if each and len(each[group]) == len(now) else None for each in others]
            if why := _judged(one, other, exact, before[group] if group else []):
                return f"{what} {index}: {why}"
    return ""


def _judged(one: Any, other: Any, exact: list[Any], every: list[Any]) -> str:
    import torch

    if one.shape != other.shape or one.dtype != other.dtype:
        return "another shape or dtype"
    if torch.equal(one, other) or agree(one, other):
        return ""
    reference, *noisy = exact
    if reference is None:
        return "it differs, and the call is impossible in float64"
    scale = max((rms(wide(each)) for each in every if each.numel()), default=0.0)
    coarsest = coarser(precision_of(one.dtype) or FLOAT32, FLOAT32)
    found = judged(one, other, reference, [each for each in noisy if each is not None], scale, coarsest)
    if found.judgement is Judgement.FINE:
        return ""
    if found.judgement is Judgement.UNDECIDED:
        return f"it differs, and cannot be judged: {found.why}"
    return "it differs by more than rounding"
