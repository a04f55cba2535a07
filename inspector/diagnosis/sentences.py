"""Write advice with what its trial showed: the same line in every view, for the same finding."""

from collections.abc import Collection

from ctrace.inspector.diagnosis.advise import diagnose
from ctrace.inspector.diagnosis.diagnosis_scene import short_place
from ctrace.inspector.facts.diagnosis import LAST_RESORT, Diagnosis, Effect, Finding, Suggestion, Symptom
from ctrace.inspector.facts.session import Session
from ctrace.inspector.knowledge.counting import first_of, framed


def advised(session: Session, what: Finding) -> dict[int, str]:
    """Return what `explain` advises on each finding of a kind, by its index; findings without advice are left out."""
    return {each.index: line for each, line in advice_lines(diagnose(session)).items() if each.what is what}


def suggested(session: Session, *whats: Finding) -> tuple[Suggestion, ...]:
    """Return the advice on causes that have findings of some kinds, in the order and words of `explain`."""
    found = diagnose(session)
    ids = {each.id for each in found.causes if any(symptom.what in whats for symptom in each.symptoms)}
    return tuple(each for each in found.advice if ids & set(each.causes))


def advice_lines(found: Diagnosis) -> dict[Symptom, str]:
    """Return the first advice on each finding."""
    lines: dict[Symptom, str] = {}
    for suggestion in found.advice:
        for cause in found.causes:
            if cause.id in suggestion.causes:
                # Advice is sorted, so that the first one on a finding is the best.
                lines |= {symptom: line_of(suggestion) for symptom in cause.symptoms if symptom not in lines}
    return lines


def line_of(suggestion: Suggestion) -> str:
    """Write a piece of advice with what its trial showed, in one line."""
    trial = checked(suggestion)
    if trial:
        return f"{suggestion.text} ({trial})"
    return suggestion.text


def checked(suggestion: Suggestion) -> str:
    """Say what a trial showed; empty if nothing was tried."""
    if suggestion.checked and suggestion.ends_failure:
        return f"checked: {suggestion.calls or 'the'} calls no longer raise"
    if suggestion.checked and suggestion.compile_time is not None:
        before, after = suggestion.compile_time
        return f"checked: compile time {before:.1f} s → {after:.1f} s"
    if suggestion.checked and suggestion.effect is not None:
        found = effect(suggestion.effect, suggestion.new_breaks) or _later_effect(suggestion)
        # Said only where it is known: a model that draws random numbers need not return the same twice.
        if suggestion.same_results:
            return f"checked: {found}, same results in eager"
        return f"checked: {found}"
    is_general = suggestion.general and suggestion.rule != LAST_RESORT
    if is_general:
        return "general advice, not checked on this model"
    return ""


def _later_effect(suggestion: Suggestion) -> str:
    """Write what changed in later calls only, after those that a run counts."""
    before, after = suggestion.later or (0, 0)
    if before <= after:  # the calls after the limit ran eagerly, and recompiled nothing
        return f"{suggestion.calls} calls no longer hit the recompile limit"
    return f"recompilations in {suggestion.calls} calls {before} → {after}"


def effect(found: Effect, new_breaks: Collection[str] = ()) -> str:
    """Write what changed: "graphs 4 → 1, graph breaks 3 → 1 (new: net.py:8)".

    `new_breaks` are the places of graph breaks that are there only after the change: a number of breaks that stays the
    same then shows, too, because a break that has moved is not solved.
    """
    before, after = found.before, found.after
    parts = []
    if before.graphs != after.graphs:
        parts = [f"graphs {before.graphs} → {after.graphs}"]
    if before.breaks != after.breaks or new_breaks:
        parts.append(f"graph breaks {before.breaks} → {after.breaks}{_new(new_breaks)}")
    if before.recompiles != after.recompiles:
        parts.append(f"recompilations {before.recompiles} → {after.recompiles}")
    was, now = before.coverage, after.coverage
    if was is not None and now is not None and int(was) != int(now):
        parts.append(f"ops in graphs {int(was)}% → {int(now)}%")  # rounded down, like the verdict's share
    return ", ".join(parts)


def _new(places: Collection[str]) -> str:
    """Write the places of new graph breaks, in parentheses; empty if there are none."""
    names = [short_place(each) for each in places]
    return framed(" (new: ", first_of(names, _MOST_PLACES), ")")


_MOST_PLACES = 3
"""They stand in parentheses within a sentence; any new break refutes a trial, so the first ones are enough."""
