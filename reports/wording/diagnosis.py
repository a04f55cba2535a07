"""A diagnosis in words, for screens and Markdown."""

from collections import Counter

from ctrace.inspector.diagnosis.sentences import checked as checked
from ctrace.inspector.diagnosis.sentences import effect as effect
from ctrace.inspector.model.diagnosis import Finding, RootCause
from ctrace.inspector.model.session import Session
from ctrace.inspector.model.trial import later_calls_of
from ctrace.reports import format as fmt

MOST_ADVICE = 3
MOST_CAUSES = 5
_NOUNS = {
    Finding.BREAK: ("graph break", "graph breaks"),
    Finding.SKIP: ("function runs eagerly", "functions run eagerly"),
    Finding.RECOMPILE: ("recompilation", "recompilations"),
    Finding.DANGER: ("wrong result", "wrong results"),
    Finding.ATTENTION: ("attention", "attentions"),
    Finding.FAILURE: ("failure", "failures"),
}


def later_calls(session: Session) -> str:
    """Say what more calls showed than the two of each scenario; empty if nothing else, or if they were not made."""
    found = later_calls_of(session.trials)
    if found is None or found.recompiles <= len(session.recompiles):
        return ""
    return f"{found.calls} calls recompile {fmt.count(found.recompiles, 'time')}."


def is_failure_alone(each: RootCause) -> bool:
    """Whether a cause is only the failure that the verdict already states."""
    return all(symptom.what is Finding.FAILURE for symptom in each.symptoms)


def symptoms(each: RootCause) -> str:
    """Count the findings of a cause by their kind."""
    counted = Counter(symptom.what for symptom in each.symptoms if symptom.what is not Finding.FAILURE)
    return ", ".join(fmt.count(number, *_NOUNS[what]) for what, number in counted.items())


def cost(each: RootCause) -> str:
    """Write the cost of a cause; leave out what was not measured."""
    ops = f"{fmt.count(each.cost.ops, 'op')} in eager" if each.cost.ops else ""
    time = f"{fmt.seconds(each.cost.seconds)} of compile time" if each.cost.seconds else ""
    return ", ".join(part for part in (ops, time) if part)
