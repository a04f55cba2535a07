"""Root causes and advice as JSON."""

from typing import Any

from ctrace.inspector.diagnosis.advise import diagnose
from ctrace.inspector.facts.diagnosis import Apply, Effect, Finding, RootCause, Suggestion
from ctrace.inspector.facts.session import Session
from ctrace.reports import format as fmt


def diagnosis_data(session: Session) -> dict[str, Any]:
    """Return `causes`, costliest first, and `advice`, best first, as plain data."""
    found = diagnose(session)
    return {
        "causes": [root_cause_data(each, session.environment.cwd) for each in found.causes],
        "advice": [suggestion_data(each, session.environment.cwd) for each in found.advice],
    }


def advice_on(session: Session, *whats: Finding) -> list[dict[str, Any]]:
    """Return the advice on causes that have findings of some kinds, in the order and words of `explain`."""
    found = diagnose(session)
    ids = {each.id for each in found.causes if any(symptom.what in whats for symptom in each.symptoms)}
    return [suggestion_data(each, session.environment.cwd) for each in found.advice if ids & set(each.causes)]


def root_cause_data(each: RootCause, cwd: str) -> dict[str, Any]:
    """Return one root cause."""
    return {
        "id": each.id,
        "kind": str(each.kind),
        "title": each.title,
        "file": each.file and fmt.path(each.file, cwd),
        "line": each.line,
        "function": each.function,
        "cost": {"graphs": each.cost.graphs, "ops": each.cost.ops, "seconds": each.cost.seconds},
        "symptoms": [{"what": str(symptom.what), "index": symptom.index} for symptom in each.symptoms],
        "why": each.why,
        "expected": each.expected or None,
    }


def suggestion_data(each: Suggestion, cwd: str) -> dict[str, Any]:
    """Return one piece of advice."""
    return {
        "text": each.text,
        "causes": list(each.causes),
        "checked": each.checked,
        "effect": None if each.effect is None else effect_data(each.effect),
        "general": each.general,
        "apply": None if each.apply is None else _apply(each.apply, cwd),
        "calls": each.calls,
        "rule": each.rule or None,
    }


def _apply(each: Apply, cwd: str) -> dict[str, Any]:
    return {
        "kind": str(each.kind),
        "file": each.file and fmt.relative(each.file, cwd),
        "line": each.line,
        "text": each.text,
    }


def effect_data(effect: Effect) -> dict[str, Any]:
    """Return counts as pairs: before, after."""
    names = ("graphs", "breaks", "recompiles", "coverage")
    return {name: [getattr(effect.before, name), getattr(effect.after, name)] for name in names}
