"""How compiled results were compared with eager results; the capture writes it, the reader parses it."""

from enum import StrEnum

from msgspec import Struct


class Rule(StrEnum):
    """How ctrace decided whether a compiled result is wrong."""

    DIRECT = "direct"
    """Compared with eager: they agree within the dtype's rounding, or differ beyond doubt."""
    EXPERIMENT = "experiment"
    """With the old state restored, eager returns what compiled code returned."""
    REFERENCE = "reference"
    """Compared, like eager, with the same call in float64."""
    TOLERANCE = "tolerance"
    """Compared with eager, with the tolerances of the call's coarsest dtype, because there is no float64 reference."""


class Comparison(Struct, frozen=True):
    """How compiled results were judged, and how far eager and compiled code are from the float64 reference."""

    rule: Rule
    eager_error: float | None = None
    """Eager's error in the measure in which compiled code is worst; None: there was no reference."""
    compiled_error: float | None = None
    no_reference: str = ""
    """Why there was no reference although one was needed."""
