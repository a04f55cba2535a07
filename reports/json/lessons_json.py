"""Write what ctrace knows about a kind of break or of recompilation cause as JSON (`--explain --json`)."""

from typing import Any

from ctrace.inspector.findings.breaks.lessons import CauseLesson, Lesson
from ctrace.inspector.knowledge.advice import AdviceEntry
from ctrace.reports.escape import Document, json_document
from ctrace.reports.json.explain_json import SCHEMA, advice_data


def render_lesson_json(lesson: Lesson) -> Document:
    """Write the explanation of a kind of break, indented, with a final newline."""
    torch = lesson.torch
    data = {
        "schema": SCHEMA,
        "id": lesson.name,
        **_entry(lesson.entry),
        "cases": {case: _entry(entry) for case, entry in lesson.cases},
        "unadvised": lesson.unadvised and {"kind": lesson.unadvised.kind, "line": lesson.unadvised.line},
        "versions": lesson.lifetime
        and {
            "installed": lesson.version or None,
            "first": lesson.lifetime.first,
            "last": lesson.lifetime.last or None,
            "raised_until": lesson.lifetime.raised_until or None,
        },
        "torch": torch and {"title": torch.title, "explanation": torch.explanation, "hints": list(torch.hints)},
    }
    return json_document(data)


def render_cause_lesson_json(lesson: CauseLesson) -> Document:
    """Write the explanation of a kind of cause, indented, with a final newline."""
    data = {
        "schema": SCHEMA,
        "kind": lesson.name,
        **_caused(lesson.entry),
        "cases": {case: _caused(entry) for case, entry in lesson.cases},
    }
    return json_document(data)


def _caused(entry: AdviceEntry) -> dict[str, Any]:
    return {**_entry(entry), "expected": entry.expected}


def _entry(entry: AdviceEntry | None) -> dict[str, Any]:
    if entry is None:
        return {"title": None, "reason": None, "fix": None, "advice": None}
    return {"title": entry.title, "reason": entry.why, "fix": entry.fix, "advice": advice_data(entry)}
