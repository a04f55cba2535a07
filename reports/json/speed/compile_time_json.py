"""Compile time and caches as JSON, for programs. Names are fixed: they may be added to, never renamed."""

from typing import Any

from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.compile_time import compile_time_view
from ctrace.reports import format as fmt
from ctrace.reports.escape import Document, json_document
from ctrace.reports.json.printer import SCHEMA


def render_compile_json(session: Session) -> Document:
    """Write where compile time goes and what caches returned; seconds are null if the log times no step."""
    data = {
        "schema": SCHEMA,
        "verdict": str(session.verdict),
        "target": {"path": session.target.path, "name": session.target.name, "args": list(session.target.args)},
        "compile": compile_data(session),
        "problems": [{"what": problem.what, "line": problem.line} for problem in session.problems],
    }
    return json_document(data)


def compile_data(session: Session) -> dict[str, Any]:
    """Return compile time and caches as plain data."""
    found, cwd = session.compile_time, session.environment.cwd
    return {
        "seconds": compile_time_view.seconds(found),
        "phases": compile_time_view.phases(found),
        "graphs": [
            {
                "id": each.id,
                "function": each.function,
                "file": None if each.file is None else fmt.relative(each.file, cwd),
                "line": each.line,
                "seconds": each.seconds,
                "phases": each.phases,
            }
            for each in compile_time_view.graphs(session)
        ],
        "steps": [
            {
                "name": each.step.name,
                "phase": each.step.phase,
                "depth": each.depth,
                "seconds": each.step.seconds,
                "own_seconds": each.own,
                "times": each.step.times,
            }
            for each in compile_time_view.listed(found)
        ],
        "parallel": [
            {"name": each.name, "phase": each.phase, "seconds": each.seconds, "times": each.times}
            for each in compile_time_view.parallel(found)
        ],
        "cache_use": {
            "kind": found.use.kind or None,
            "folder": found.use.folder or None,
            "switched_off": list(found.use.switched_off),
        },
        "caches": [answer_data(each) for each in compile_time_view.answers(found)],
    }


def answer_data(each: compile_time_view.CacheAnswer) -> dict[str, Any]:
    """Return one cache look-up; `differs` is null if there is no earlier key to compare with."""
    lookup = each.lookup
    differs = [{"component": one.component, "was": one.was, "now": one.now} for one in each.differs]
    return {
        "cache": lookup.cache,
        "graph": lookup.graph,
        "stage": lookup.stage,
        "kernel": lookup.kernel,
        "outcome": str(lookup.outcome),
        "detail": lookup.detail or None,
        "key": lookup.key,
        "why": each.why,
        "against": None if each.earlier is None else each.earlier.run,
        "differs": None if each.earlier is None else differs,
        "stored": lookup.is_stored,
        "not_stored": lookup.not_stored or None,
    }
