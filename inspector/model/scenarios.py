"""Where a scenario comes from and how it ended: the words that the capture writes and the reader knows.

Apart from `model.py`, which the program under capture need not wait for.
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
    """`--provoke`: what commonly makes torch compile again."""


class Outcome(StrEnum):
    """How the calls of a scenario ended."""

    DONE = "done"
    NOT_TAKEN = "not_taken"
    """The model itself, without torch.compile, does not take such a call; it was not called compiled."""
    COMPILE_FAILED = "compile_failed"
    """The model takes it, and raises when it is compiled."""
    UNFINISHED = "unfinished"
    """It was being called when the run ended."""
    NOT_RUN = "not_run"
    """The run ended before its turn came."""
