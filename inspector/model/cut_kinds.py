"""Evidence that a log is incomplete."""

from enum import StrEnum

from msgspec import Struct

NO_END_MARK = "no end mark: cannot tell whether the job finished"
"""The note for a log that only torch wrote: such a log looks the same whether or not the job finished."""


class CutKind(StrEnum):
    """The kind of evidence."""

    COMPILATION = "compilation"
    """A compilation, or a phase of it, that started and did not finish."""
    RUN = "run"
    """A capture that did not finish."""
    LINE = "line"
    """A log that stops in the middle of a line."""
    RECORD = "record"
    """A record that cannot be read: its payload is missing or too short, or the record is damaged."""
    EMPTY = "empty"
    """A log without a record."""
    MISSING = "missing"
    """Another source counts more events than the log has."""


class CutOff(Struct, frozen=True):
    """One piece of evidence that a log is incomplete."""

    kind: CutKind
    what: str
    """One sentence."""
    unknown: str = ""
    """What the log therefore cannot show."""
    compilation: str | None = None
    line: int | None = None
    """The line of the trace log that shows it; None if no single line does."""
