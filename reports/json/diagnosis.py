"""Root causes and advice as JSON."""

from typing import Any

from ctrace.inspector.diagnosis.advise import diagnose
from ctrace.inspector.model.diagnosis import Effect, RootCause, Suggestion
from ctrace.inspector.model.session import Session
from ctrace.reports import format as fmt


def diagnosis_data(session: Session) -> dict[str, Any]:
    """Return `causes`, costliest first, and `advice`, best first, as plain data."""
    found = diagnose(session)
    return {
        "causes": [root_cause_data(each, session.environment.cwd) for each in found.causes],
        "advice": [_suggestion(each) for each in found.advice],
    }


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


def _suggestion(each: Suggestion) -> dict[str, Any]:
    return {
        "text": each.text,
        "causes": list(each.causes),
        "checked": each.checked,
        "effect": None if each.effect is None else effect_data(each.effect),
        "general": each.general,
    }


def effect_data(effect: Effect) -> dict[str, Any]:
    """Return counts as pairs: before, after."""
    names = ("graphs", "breaks", "recompiles", "coverage")
    return {name: [getattr(effect.before, name), getattr(effect.after, name)] for name in names}
