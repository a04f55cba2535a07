"""Where a scenario comes from and how it ended, as the capture writes it and the reader parses it. Separate from
`session.py`, so that the program under capture does not wait for that import.
"""

from enum import StrEnum


class ScenarioKind(StrEnum):
    """Where a scenario comes from."""

    BASE = "base"
    """The target's own inputs."""
    GIVEN = "given"
    """The model file's `scenarios`."""
    VARY = "vary"
    """The command line's `--vary`."""
    PROVOKED = "provoked"
    """`--provoke`: a change that often causes a recompilation."""


class Outcome(StrEnum):
    """How the calls of a scenario ended."""

    DONE = "done"
    NOT_TAKEN = "not_taken"
    """The model rejects the call without torch.compile, so the compiled model was not called."""
    COMPILE_FAILED = "compile_failed"
    """The model accepts the call in eager, and raises with torch.compile."""
    UNFINISHED = "unfinished"
    """The run ended during one of its calls."""
    NOT_RUN = "not_run"
    """The run ended before its first call."""
