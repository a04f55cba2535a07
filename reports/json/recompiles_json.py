"""Write recompilations as JSON: grouped by cause, and for each cache."""

from typing import Any

from ctrace.inspector.facts.diagnosis import Finding
from ctrace.inspector.facts.findings import Recompile
from ctrace.inspector.facts.session import Compilation, Session
from ctrace.inspector.findings.recompiles.recompile_view import Cache, RecompileGroup, caches, groups
from ctrace.reports import format as fmt
from ctrace.reports.escape import Document, json_document
from ctrace.reports.json.diagnosis_json import advice_on
from ctrace.reports.json.printer import SCHEMA, plain


def render_recompiles_json(session: Session) -> Document:
    """Write recompilations, their causes and the caches that they fill, indented, with a final newline."""
    cwd = session.environment.cwd
    data = {
        "schema": SCHEMA,
        "verdict": str(session.verdict),
        "recompiles": plain(session.recompiles, cwd),
        "advice": advice_on(session, Finding.RECOMPILE),
        "groups": [_group(each, cwd) for each in groups(session)],
        "caches": [_cache(each, session, cwd) for each in caches(session)],
        "problems": [{"what": problem.what, "line": problem.line} for problem in session.problems],
    }
    return json_document(data)


def _group(group: RecompileGroup, cwd: str) -> dict[str, Any]:
    return {
        "function": group.function,
        "file": fmt.relative(group.file, cwd),
        "line": group.line,
        "cause": plain(group.cause, cwd),
        "values": list(group.values),
        "compilations": list(group.compilations),
        "expected": group.expected,
        "seconds": group.seconds,
        "outlook": str(group.prospect.outlook),
        "why": group.prospect.why,
        "also": list(group.also),
    }


def _cache(cache: Cache, session: Session, cwd: str) -> dict[str, Any]:
    by_id = {each.compilation: each for each in session.recompiles}
    return {
        "function": cache.function,
        "file": fmt.relative(cache.file, cwd),
        "line": cache.line,
        "used": cache.use and cache.use.used,
        "of": cache.use and cache.use.of,
        "refused": cache.refused,
        "ops_in_eager": cache.left,
        "objects": list(cache.objects),
        "entries": [_entry(each, by_id.get(each.id)) for each in cache.entries],
    }


def _entry(entry: Compilation, recompile: Recompile | None) -> dict[str, Any]:
    return {
        "compilation": entry.id,
        "scenario": entry.scenario,
        "call": entry.call,
        "seconds": entry.seconds,
        "nearest": recompile and recompile.nearest,
        "distances": dict(recompile.distances) if recompile else {},
    }
