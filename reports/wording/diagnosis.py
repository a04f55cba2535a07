"""A diagnosis in words, for screens and Markdown."""

from collections import Counter

from ctrace.inspector.model.diagnosis import Effect, Finding, RootCause, Suggestion
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


def checked(each: Suggestion) -> str:
    """Say what a trial showed; empty if nothing was tried."""
    if each.checked and each.effect is not None:
        return f"checked: {effect(each.effect)}"
    return "general advice, not checked on this model" if each.general else ""


def effect(found: Effect) -> str:
    """Write what changed: "graphs 4 → 1, graph breaks 3 → 0"."""
    pairs = [
        ("graphs", found.before.graphs, found.after.graphs),
        ("graph breaks", found.before.breaks, found.after.breaks),
        ("recompilations", found.before.recompiles, found.after.recompiles),
    ]
    parts = [f"{name} {was} → {now}" for name, was, now in pairs if was != now]
    before, after = found.before.coverage, found.after.coverage
    if before is not None and after is not None and int(before) != int(after):
        parts.append(f"ops in graphs {int(before)}% → {int(after)}%")  # rounded down, like the verdict's share
    return ", ".join(parts)


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
