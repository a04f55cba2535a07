"""Where a scenario comes from, how it ended, and how its results were compared, as the capture writes it.

Separate from `session.py`, so that the program under capture does not wait for that import. The records of the log are
about the calls of a scenario: how they ended, and where their results differ from eager's.
"""

from enum import StrEnum
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.facts.wire import Integer, Number, Record


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


class ResultPart(Struct, frozen=True):
    """An output of a call, or all its inputs or gradients, in numbers that tell two programs apart."""

    where: str
    """`output`, `inputs` or `gradients`."""
    numbers: tuple[str, ...] = ()
    """Sum, Euclidean norm and the sum of every other element, as text: JSON has no infinity. Empty: not computed."""
    is_number: bool = False
    """Whether it is a Python number, not a tensor."""


class EagerResult(Struct, frozen=True):
    """What the first eager call of a scenario returned."""

    call: Integer
    """The call's number in the scenario, from 0."""
    drew: bool
    """Whether it drew random numbers, so that another program need not return the same."""
    parts: tuple[ResultPart, ...] = ()


class ScenarioDone(Record, frozen=True, kw_only=True):
    """The calls of a scenario ended; the fields are those of `Scenario` and `Comparison`."""

    KIND: ClassVar[str] = "scenario"
    name: str
    calls: Integer
    kind: ScenarioKind = ScenarioKind.GIVEN
    outcome: Outcome = Outcome.DONE
    message: str = ""
    compared: Integer | None = None
    not_compared: str = ""
    rule: Rule | None = None
    eager_error: Number | None = None
    compiled_error: Number | None = None
    no_reference: str = ""
    call_seconds: Number | None = None
    training: bool | None = None
    unused_grad: bool | None = None
    eager_result: EagerResult | None = None


class DangerFound(Record, frozen=True, kw_only=True):
    """A compiled call and the same call in eager returned different results; see `Danger` and `Comparison`."""

    KIND: ClassVar[str] = "danger"
    scenario: str
    call: Integer
    difference: str | None = None
    rule: Rule | None = None
    eager_error: Number | None = None
    compiled_error: Number | None = None
    no_reference: str = ""
    kind: str
    subject: str
    was: str | None = None
    now: str | None = None
    file: str | None = None
    line: Integer | None = None
    proven: bool
