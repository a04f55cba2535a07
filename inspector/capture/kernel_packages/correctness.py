"""Compare a kernel's outputs with those of its definition, on the inputs of one size class."""

from typing import Any

from ctrace.inspector.capture.comparing.precision import precision_of
from ctrace.inspector.capture.kernel_packages.elements import finite, first_difference, noise_of
from ctrace.inspector.capture.kernel_packages.importing import Operator
from ctrace.inspector.capture.kernel_packages.inputs import Case, outputs
from ctrace.inspector.capture.kernel_packages.kernel_sides import Outcome
from ctrace.inspector.kernel_packages.model import Element, Sizes


def compared(operator: Operator, case: Case, found: Outcome, seconds: float | None = None) -> Sizes:
    """Return whether an outcome is right, with the first value that differs."""
    name = operator.name.rpartition("::")[2]
    if found.raised:
        return Sizes(name, case.name, found.kind, equal=False, largest=None, note=found.raised, inputs=case.kind)
    largest, wrong = difference(case, found.value)
    if wrong is not None and case.kind:  # with unusual values, the definition's own rounding may be as large
        largest, wrong = difference(case, found.value, case.plain())
    is_equal = wrong is None and not found.is_outside
    return Sizes(name, case.name, found.kind, is_equal, finite(largest), wrong, found.note, seconds, case.kind)


def difference(case: Case, value: Any, plain: tuple[Any, ...] = ()) -> tuple[float, Element | None]:
    """Return the largest relative difference from the definition, and the first value that differs.

    Args:
        plain: what the definition returns in the inputs' own dtypes, whose rounding errors do not count.
    """
    largest, wrong = 0.0, None
    values = outputs(value)
    for number, (expected, found) in enumerate(zip(case.expected, values, strict=True)):
        title = "the output" if len(values) == 1 else f"output {number}"
        # The definition computes in float64, the kernel rounds its result to its own dtype.
        precision = precision_of(found.dtype)
        least = 0.0 if precision is None else 2 * precision.largest
        noise = noise_of(plain[number], expected) if plain else 0.0
        by, element = first_difference(title, expected.to(found.device), found, relative=least, noise=noise)
        largest = max(largest, by)
        wrong = wrong or element
    return largest, wrong
