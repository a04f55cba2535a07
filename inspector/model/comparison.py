"""By which rule compiled results were held against eager ones: words that the capture writes and the reader knows."""

from dataclasses import dataclass
from enum import StrEnum


class Rule(StrEnum):
    """How it was decided whether a compiled result is wrong."""

    DIRECT = "direct"
    """Held against eager itself: they agree within what the dtype lets any two calls differ, or cannot be alike."""
    EXPERIMENT = "experiment"
    """With old state put back, eager gives what compiled code gave."""
    REFERENCE = "reference"
    """Held, as eager was, against the same call in float64."""
    TOLERANCE = "tolerance"
    """Held against eager with the tolerances of the coarsest dtype in the call: there is no float64 reference."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How compiled results were judged, and how far eager and compiled code are from the float64 reference."""

    rule: Rule
    eager_error: float | None = None
    """By the measure that compiled code does worst in; None: there was no reference."""
    compiled_error: float | None = None
    no_reference: str = ""
    """Why there was none, where one was needed."""
