"""What is known of a kind of break or cause as JSON, for programs."""

import json
from typing import Any

from ctrace.inspector.advice import Entry
from ctrace.inspector.views.lessons import CauseLesson, Lesson
from ctrace.reports.json import SCHEMA, advice_data


def render_lesson_json(lesson: Lesson) -> str:
    """Write what is known of a kind of break, indented, with a final newline."""
    told = lesson.torch
    data = {
        "schema": SCHEMA,
        "id": lesson.name,
        **_entry(lesson.entry),
        "cases": {case: _entry(entry) for case, entry in lesson.cases},
        "torch": told and {"title": told.title, "explanation": told.explanation, "hints": list(told.hints)},
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def render_cause_lesson_json(lesson: CauseLesson) -> str:
    """Write what is known of a kind of cause, indented, with a final newline."""
    data = {
        "schema": SCHEMA,
        "kind": lesson.name,
        **_caused(lesson.entry),
        "cases": {case: _caused(entry) for case, entry in lesson.cases},
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _caused(entry: Entry) -> dict[str, Any]:
    return {**_entry(entry), "expected": entry.expected}


def _entry(entry: Entry | None) -> dict[str, Any]:
    if entry is None:
        return {"title": None, "reason": None, "fix": None, "advice": None}
    return {"title": entry.title, "reason": entry.why, "fix": entry.fix, "advice": advice_data(entry)}
