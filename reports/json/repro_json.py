"""A reproducer as JSON, for programs. Names are fixed: they may be added to, never renamed."""

from typing import Any

from ctrace.inspector.features.fix.reduction.saved_reproducers import Reproducer
from ctrace.reports.escape import Document, json_document
from ctrace.reports.json.printer import SCHEMA


def render_repro_json(made: Reproducer) -> Document:
    """Write a reproducer, and how it was made."""
    return json_document(repro_data(made))


def repro_data(made: Reproducer) -> dict[str, Any]:
    """Return a reproducer as plain data; `line` is null if the finding is in a package or about the whole program."""
    return {
        "schema": SCHEMA,
        "finding": {
            "id": made.sought.id,
            "what": str(made.sought.what),
            "title": made.sought.title,
            "ids": list(made.sought.ids),
            "file": made.sought.file or None,
            "line": made.sought.line or None,
        },
        "program": made.text,
        "line": made.line,
        "lines": made.lines,
        "lines_before": made.lines_before,
        "form": made.form,
        "start": made.start,
        "tries": made.tries,
        "seconds": round(made.seconds, 2),
        "verified": made.verified,
        "complete": made.is_complete,
        "interrupted": made.interrupted,
        "output": made.output,
        "torch": made.environment.torch,
        "python": made.environment.python,
    }
