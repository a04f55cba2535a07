"""What `ctrace explain` prints of a session: its JSON, its screen and its Markdown."""

import json
from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType

from ctrace.inspector.diagnosis.explain_document import explain_document
from ctrace.inspector.facts.session import Session
from ctrace.reports.json.printer import render
from ctrace.reports.markdown import render_markdown
from ctrace.reports.terminal.explain_screen import explain_screen


def explain_json(session: Session) -> str:
    """Return the text."""
    return render(explain_document(session))


def explained(session: Session) -> Any:
    """Return the data."""
    return json.loads(explain_json(session))


def explain_markdown(session: Session) -> str:
    """Return the Markdown."""
    return render_markdown(explain_document(session))


def screen_of(session: Session, width: int, *, verbose: bool = False, run: str | None = "") -> Iterator[RenderableType]:
    """Return the parts of the screen."""
    return explain_screen(explain_document(session, whole=verbose), width, verbose=verbose, run=run)
