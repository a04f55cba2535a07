"""Root causes and advice as JSON."""

from typing import Any

from ctrace.inspector.diagnosis.advise import diagnose
from ctrace.inspector.facts.diagnosis import Finding
from ctrace.inspector.facts.session import Session
from ctrace.reports.json.printer import plain


def diagnosis_data(session: Session) -> dict[str, Any]:
    """Return `causes`, costliest first, and `advice`, best first, as plain data."""
    found = diagnose(session)
    cwd = session.environment.cwd
    return {"causes": plain(found.causes, cwd), "advice": plain(found.advice, cwd)}


def advice_on(session: Session, *whats: Finding) -> list[dict[str, Any]]:
    """Return the advice on causes that have findings of some kinds, in the order and words of `explain`."""
    found = diagnose(session)
    ids = {each.id for each in found.causes if any(symptom.what in whats for symptom in each.symptoms)}
    return [plain(each, session.environment.cwd) for each in found.advice if ids & set(each.causes)]
