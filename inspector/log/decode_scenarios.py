"""Make what a session says of scenarios and dangers from their records, which are flat."""

from ctrace.inspector.facts.findings import Danger
from ctrace.inspector.facts.run_events import PartsSeen
from ctrace.inspector.facts.scenario_facts import Comparison, DangerFound, ScenarioDone
from ctrace.inspector.facts.session import Scenario
from ctrace.inspector.facts.trial import Part


def scenario_of(done: ScenarioDone) -> Scenario:
    """Return a scenario that was called."""
    return Scenario(
        name=done.name,
        calls=done.calls,
        kind=done.kind,
        outcome=done.outcome,
        message=done.message,
        compared=done.compared,
        not_compared=done.not_compared,
        call_seconds=done.call_seconds,
        training=done.training,
        unused_grad=done.unused_grad,
        comparison=_comparison(done),
    )


def parts_of(seen: PartsSeen) -> tuple[Part, ...]:
    """Return the modules of the target; several share the code of one `forward`."""
    found = []
    for each in seen.parts:
        code = seen.codes[each.code]
        found.append(Part(each.path, each.kind, code.file, code.first, code.last, each.parameters))
    return tuple(found)


def danger_of(found: DangerFound) -> Danger:
    """Return results that differ from eager ones."""
    return Danger(
        scenario=found.scenario,
        call=found.call,
        kind=found.kind,
        subject=found.subject,
        difference=found.difference or "",
        was=found.was,
        now=found.now,
        file=found.file,
        line=found.line,
        proven=found.proven,
        comparison=_comparison(found),
    )


def _comparison(record: ScenarioDone | DangerFound) -> Comparison | None:
    """Return how results were compared; None: the record is of an older ctrace."""
    if record.rule is None:
        return None
    return Comparison(record.rule, record.eager_error, record.compiled_error, record.no_reference)
