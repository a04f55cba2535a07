"""Compare the results of a compiled call with those in eager, as one number."""

import math
from typing import Any

from ctrace.inspector.capture.calls.calling import called
from ctrace.inspector.capture.calls.ways import Way
from ctrace.inspector.capture.comparing.compare_results import leaves
from ctrace.inspector.capture.comparing.snapshots import taken
from ctrace.inspector.capture.core.exception_text import type_name
from ctrace.inspector.capture.state.state_copies import copied
from ctrace.inspector.capture.timing.timed_rounds import Bench
from ctrace.inspector.features.time.events import Differed

RANDOM = "two eager calls differ, too"


def differed(bench: Bench, way: Way, *, train: bool) -> Differed:
    """Call eager twice and compiled once, each with copies of the same inputs, and compare outputs and gradients.

    The model keeps its state between the calls: if it changes that state, two eager calls differ, too.
    """
    original, results = bench.make(), []
    for side in (0, 0, 1):
        try:
            call = copied(original)
        except Exception as error:  # an argument's `__deepcopy__` may raise anything
            return Differed(bench.scenario, None, f"the inputs cannot be copied: {type_name(error)}")
        results.append(taken(called(bench.sides[side], call, way, train=train)[0]))
    eager, second, compiled = results
    noise, difference = _largest(eager, second), _largest(eager, compiled)
    if math.isinf(difference or 0.0):
        return Differed(bench.scenario, None, "the results differ in shape")
    if noise is None or difference is None:
        return Differed(bench.scenario, None, "the results contain no floating-point values to compare")
    if noise > 1e-4:
        return Differed(bench.scenario, None, RANDOM)
    return Differed(bench.scenario, difference)


def _largest(one: Any, other: Any) -> float | None:
    """Return the largest difference of two results, relative to the largest value of the same tensor."""
    import torch

    found: list[float] = []
    for leaf in leaves(one, other):
        first, second = leaf.eager, leaf.compiled
        if leaf.group == "inputs" or not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
            continue
        if first.shape != second.shape:
            return math.inf
        if first.numel() and (first.is_floating_point() or first.is_complex()):
            found.append(_relative(first, second))
    return max(found, default=None)


def _relative(first: Any, second: Any) -> float:
    import torch

    wide = torch.complex128 if first.is_complex() else torch.float64
    first, second = first.detach().to("cpu", wide), second.detach().to("cpu", wide)
    gap = torch.nan_to_num((first - second).abs(), nan=0.0 if torch.equal(first.isnan(), second.isnan()) else 1e30)
    largest = float(torch.nan_to_num(first.abs(), nan=0.0, posinf=0.0).max())
    return float(gap.max()) / (largest or 1.0)
