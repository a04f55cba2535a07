"""The steps of compiling as a tree in JSON, for the page's flame graph."""

from typing import Any

from ctrace.inspector.facts.compile_time import Lane, Span
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.compile_time.compile_time_fold import lanes_of
from ctrace.inspector.findings.compile_time.compile_time_view import OTHER, phase_of
from ctrace.reports.escape import Document, json_document


def render_steps_json(session: Session) -> Document:
    """Write the steps of every thread, nested; a log without times has no thread."""
    return json_document({"threads": [_lane(each) for each in lanes_of(session.compile_time) if each.spans]})


def _lane(lane: Lane) -> dict[str, Any]:
    steps = [_step(each, OTHER) for each in lane.spans]
    return {"thread": lane.thread, "parallel": lane.is_parallel, "steps": steps}


def _step(span: Span, around: str) -> dict[str, Any]:
    phase = phase_of(span.name, around)
    return {
        "name": span.name,
        "phase": phase,
        "graph": span.graph,
        "begin": span.begin,
        "seconds": span.seconds,
        "cut": span.is_cut,
        "steps": [_step(each, phase) for each in span.children],
    }
