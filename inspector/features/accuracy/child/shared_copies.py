"""Copy the inputs of a graph, those that share memory together."""

from collections.abc import Sequence
from typing import Any

from ctrace.inspector.capture.calls.overlapping_tensors import copied_together, overlapping
from ctrace.inspector.capture.comparing.float64 import widened_together
from ctrace.inspector.features.accuracy.child.kernel_judge import copied_value, widened


def copied_inputs(values: Sequence[Any]) -> list[Any]:
    """Copy values; tensors that overlap still do."""
    found = list(map(copied_value, values))
    for places in overlapping(values):
        for at, value in zip(places, copied_together([values[at] for at in places]), strict=True):
            found[at] = value
    return found


def widened_inputs(values: Sequence[Any]) -> list[Any]:
    """Copy values, floating-point numbers in float64; tensors that overlap still do.

    Raises:
        NoReferenceError: tensors of several dtypes overlap.
    """
    found = list(map(widened, values))
    for places in overlapping(values):
        for at, value in zip(places, widened_together([values[at] for at in places]), strict=True):
            found[at] = value
    return found
