"""Records about the calls of a scenario: how they ended, and where their results differ from eager's."""

from typing import ClassVar

from ctrace.inspector.facts.scenario_facts import Outcome, Rule, ScenarioKind
from ctrace.inspector.facts.wire import Integer, Number, Record


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
