"""Where a scenario comes from, how it ended, and how its results were compared, as the capture writes it.

Separate from `session.py`, so that the program under capture does not wait for that import.
"""

from enum import StrEnum

from msgspec import Struct


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
