"""How the capture compared compiled results with eager results."""

from enum import StrEnum

from msgspec import Struct


class Rule(StrEnum):
    """The method by which ctrace decided whether a compiled result is wrong."""

    DIRECT = "direct"
    """It compared both results: they agree within the dtype's rounding, or differ too much for any rounding."""
    EXPERIMENT = "experiment"
    """It restored the old state, and eager then returned what compiled code had returned."""
    REFERENCE = "reference"
    """It compared both results with the same call in float64."""
    TOLERANCE = "tolerance"
    """It compared both results within the tolerances of the call's coarsest dtype, for lack of a float64 reference."""


class Comparison(Struct, frozen=True):
    """How ctrace judged compiled results, and the errors of eager and compiled code against the float64 reference."""

    rule: Rule
    eager_error: float | None = None
    """Eager's error by the measure for which compiled code's error is largest; None: there was no reference."""
    compiled_error: float | None = None
    no_reference: str = ""
    """Why there was no reference although one was needed."""
