"""A diagnosis in words, for screens and Markdown."""

from collections import Counter

from ctrace.inspector.diagnosis.advise import diagnose
from ctrace.inspector.model.diagnosis import LAST_RESORT, Effect, Finding, RootCause, Suggestion
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


def checked(each: Suggestion) -> str:
    """Say what a trial showed; empty if nothing was tried."""
    if each.checked and each.effect is not None:
        return f"checked: {effect(each.effect) or _later_effect(each)}"
    is_general = each.general and each.rule != LAST_RESORT
    return "general advice, not checked on this model" if is_general else ""


def _later_effect(each: Suggestion) -> str:
    """Write what changed in later calls only, after those that a run counts."""
    before, after = each.later or (0, 0)
    if before <= after:  # the calls after the limit ran eagerly, and recompiled nothing
        return f"{each.calls} calls no longer hit the recompile limit"
    return f"recompilations in {each.calls} calls {before} → {after}"


def advised(session: Session, what: Finding) -> dict[int, str]:
    """Return what `explain` advises on each finding of a kind, by its index; findings without advice are left out."""
    found = diagnose(session)
    lines: dict[int, str] = {}
    for each in found.advice:
        trial = checked(each)
        line = f"{each.text} ({trial})" if trial else each.text
        for cause in found.causes:
            if cause.id in each.causes:
                lines |= {one.index: line for one in cause.symptoms if one.what is what and one.index not in lines}
    return lines


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
