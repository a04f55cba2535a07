"""A diagnosis in words, for screens and Markdown."""

import re
from collections import Counter
from collections.abc import Iterable

from ctrace.inspector.diagnosis.explain_document import ExplainDocument
from ctrace.inspector.diagnosis.sentences import checked as checked
from ctrace.inspector.diagnosis.sentences import effect as effect
from ctrace.inspector.diagnosis.sentences import line_of
from ctrace.inspector.facts.diagnosis import Diagnosis, Finding, RootCause, Suggestion, Symptom
from ctrace.inspector.knowledge.counting import named
from ctrace.reports import format as fmt

# Chosen, as is the next one: advice, causes and totals of `explain` fit one page.
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


# "Nothing to change if you need both" depends on the user, and so asks something.
_NO_ADVICE = re.compile(r"^(?:\S+:\d+: )?Nothing to (?:fix|change)\b(?! if)")


def asks_nothing(each: Suggestion) -> bool:
    """Whether nothing has to be done; suggestions that depend on what the user needs ask something."""
    return is_nothing(each.text) or each.optional


def notes(found: Diagnosis) -> list[str]:
    """Return what is said beside what to do: that nothing is to be done, and what is a choice."""
    said = [each.text for each in found.advice if asks_nothing(each) and not each.optional]
    choices = [f"A choice: {line_of(each)}" for each in found.advice if each.optional]
    if choices and not said and all(each.optional for each in found.advice):
        said = ["Nothing to fix."]
    return [*said, *choices]


def is_nothing(step: str) -> bool:
    """Whether a step says that there is nothing to do."""
    return bool(_NO_ADVICE.search(step))


def effects(each: Suggestion, found: Diagnosis) -> str:
    """Say what the trial of advice showed and saved; without a trial, what is at stake; empty: nothing is known."""
    return fmt.joined(", ", checked(each), saved(each, found), at_stake(each, found))


def at_stake(each: Suggestion, found: Diagnosis) -> str:
    """Say what the causes of untried advice cost in this run, the most that it can gain; empty if not known."""
    if each.checked:
        return ""
    own = [cause for cause in found.causes if cause.id in each.causes and not is_failure_alone(cause)]
    seconds = sum(cause.cost.seconds or 0 for cause in own)
    if not seconds:
        return ""
    every = [one for cause in own for one in cause.symptoms]
    counts = _counted(every)
    # Of more calls, the numbers may be higher than those that the cost is of.
    if counts and found.has_later and any(one.what is Finding.RECOMPILE for one in every):
        counts += " in two calls"
    return f"at stake: {fmt.joined(', ', counts, _compile_time(seconds))}"


def saved(each: Suggestion, found: Diagnosis) -> str:
    """Say how much compile time the recompilations took that checked advice removes; empty if it leaves some."""
    if each.effect is None or not each.effect.before.recompiles or each.effect.after.recompiles:
        return ""
    own = {id(cause): cause for cause in found.causes if cause.id in each.causes}
    seconds = sum(cause.cost.seconds or 0 for cause in own.values())
    word = named(each.effect.before.recompiles, "recompilation")
    if seconds:
        return f"the {word} took {fmt.seconds(seconds)}"
    return ""


def later_calls(document: ExplainDocument) -> str:
    """Say what more calls showed than the two of each scenario; empty if nothing else, or if they were not made."""
    found = document.outlook
    if found is None or found.recompiles <= len(document.recompiles):
        return ""
    times = fmt.count(found.recompiles, "time")
    each = " of each scenario" if len(document.scenarios) > 1 else ""
    text = f"{found.calls} calls recompile {times}; the other numbers are those of two calls{each}."
    return f"{text}{fmt.framed(f' Call {found.calls} raises ', document.later_error, '.')}"


def is_failure_alone(each: RootCause) -> bool:
    """Whether a cause is only the failure that the verdict already states."""
    return all(symptom.what is Finding.FAILURE for symptom in each.symptoms)


def symptoms(each: RootCause) -> str:
    """Count the findings of a cause by their kind."""
    return _counted(each.symptoms)


def _counted(every: Iterable[Symptom]) -> str:
    counted = Counter(symptom.what for symptom in every if symptom.what is not Finding.FAILURE)
    return ", ".join(fmt.count(number, *_NOUNS[what]) for what, number in counted.items())


def _compile_time(seconds: float | None) -> str:
    if seconds:
        return f"{fmt.seconds(seconds)} of compile time"
    return ""


def cost(each: RootCause) -> str:
    """Write the cost of a cause; leave out what was not measured."""
    return fmt.joined(
        ", ", fmt.framed("", fmt.some(each.cost.ops, "op"), " in eager"), _compile_time(each.cost.seconds)
    )


def is_of_kind(advice: str, fix_of_kind: str) -> bool:
    """Whether advice is that on the kind of a finding: the kind's example fits it, and may contradict any other."""
    first = fix_of_kind.partition(". ")[0].rstrip(".:`()")  # code may end in a colon
    return bool(first) and first[1:] in advice  # after a place, it begins in lower case
