"""Compare a kernel's outputs with those of its definition, on the inputs of one size class."""

from typing import Any

from msgspec.structs import replace

from ctrace.inspector.capture.comparing.precision import precision_of
from ctrace.inspector.features.workshop.child.checks import layout_of
from ctrace.inspector.features.workshop.child.elements import finite, first_difference, noise_of
from ctrace.inspector.features.workshop.child.importing import Operator
from ctrace.inspector.features.workshop.child.kernel_sides import OperatorOutcome
from ctrace.inspector.features.workshop.child.package_inputs import Case, outputs
from ctrace.inspector.features.workshop.child.recorded_launches import configuration_of_all
from ctrace.inspector.features.workshop.kernel_packages.package_model import Element, Sizes


def compared(operator: Operator, case: Case, found: OperatorOutcome) -> Sizes:
    """Return whether an outcome is right, with the first value that differs."""
    check = Sizes(
        operator.name.rpartition("::")[2],
        case.name,
        found.kind,
        equal=False,
        largest=None,
        note=found.raised or found.note,
        inputs=case.kind,
        configuration="" if found.kind in ("fallback", "cpu") else configuration_of_all(operator, case.configuration),
    )
    if found.raised:
        return check
    other = found.note if found.is_outside else _other_tensors(operator, case, found)
    if other:
        return replace(check, note=other)
    largest, wrong = difference(case, found.value)
    if wrong is not None and case.kind:  # with unusual values, the definition's own rounding may be as large
        largest, wrong = difference(case, found.value, case.plain())
    return replace(check, equal=wrong is None, largest=finite(largest), wrong=wrong)


def _other_tensors(operator: Operator, case: Case, found: OperatorOutcome) -> str:
    """Say which output is another kind of tensor than compiled code expects of the operator; empty if none is."""
    if found.kind == "fallback":
        return ""
    wanted, values = outputs(operator.module.run_definition(*case.args)), outputs(found.value)
    if len(wanted) != len(values):
        return f"the kernel returns {len(values)} tensors, the definition {len(wanted)}"
    for number, (one, other) in enumerate(zip(wanted, values, strict=True)):
        expected, made = layout_of(one), layout_of(other)
        if expected != made:
            return f"output {number} is {' '.join(made)}, the definition's {' '.join(expected)}"
    return ""


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
