"""What shows that a log does not hold all that happened."""

from dataclasses import dataclass
from enum import StrEnum

NO_END_MARK = "no end mark: cannot tell whether the job finished"
"""What is said of a log that torch alone wrote: it ends the same way whether or not the job did."""


class CutKind(StrEnum):
    """What shows that something is missing."""

    COMPILATION = "compilation"
    """A compilation, or a phase of it, that began and did not end."""
    RUN = "run"
    """A capture that did not come to its end."""
    LINE = "line"
    """A log that stops in the middle of a line."""
    RECORD = "record"
    """A record that cannot be read: its payload is missing or shorter than its record says, or it is damaged."""
    EMPTY = "empty"
    """A log without a record."""
    MISSING = "missing"
    """Another source counts more than the log holds."""


@dataclass(frozen=True, slots=True)
class CutOff:
    """One piece of evidence that a log does not hold all that happened."""

    kind: CutKind
    what: str
    """One sentence."""
    unknown: str = ""
    """What is therefore not known."""
    compilation: str | None = None
    line: int | None = None
    """Line of the trace log, where it is about one."""
