"""A reproducer, and how it was made."""

from msgspec import Struct

from ctrace.inspector.facts.session import Environment
from ctrace.inspector.features.fix.reduction.finding import Sought


class Reproducer(Struct, frozen=True):
    """A program that shows a finding."""

    sought: Sought
    text: str
    line: int | None
    """The line that shows the finding, in the program; None: it is in a package or concerns the whole program."""
    form: str
    """How the program shows it."""
    start: str
    """What the reduction started from, in a few words."""
    environment: Environment
    lines: int
    """Lines that are not empty."""
    lines_before: int
    tries: int
    seconds: float
    verified: bool
    """Whether a fresh Python process without ctrace showed the finding."""
    output: str
    """What that process wrote."""
    is_complete: bool
    """Whether nothing was left to try; else the budget was spent, or the user interrupted."""
    interrupted: bool = False
