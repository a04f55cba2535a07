"""Recompiles as JSON, for programs."""

import json
from typing import Any

from ctrace.inspector.model import Recompile, Session
from ctrace.inspector.views.recompiles import Cache, RecompileGroup, caches, groups
from ctrace.reports import format as fmt
from ctrace.reports.json import SCHEMA, as_data


def render_recompiles_json(session: Session) -> str:
    """Write recompiles by cause, one by one, and by cache, indented, with a final newline."""
    cwd = session.environment.cwd
    told = as_data(session)
    data = {
        "schema": SCHEMA,
        "verdict": str(session.verdict),
        "causes": [_group(each, cwd) for each in groups(session)],
        "recompiles": [
            {**data, **_more(each)} for data, each in zip(told["recompiles"], session.recompiles, strict=True)
        ],
        "caches": [_cache(each, cwd) for each in caches(session)],
        "limit": told["limit"],
        "problems": told["problems"],
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _group(group: RecompileGroup, cwd: str) -> dict[str, Any]:
    cause = group.cause
    advice = cause.advice
    return {
        "kind": group.kind,
        "subject": group.subject,
        "function": group.function,
        "file": fmt.path(group.file, cwd),
        "line": group.line,
        "fixed_here": group.is_fixed_here,
        "values": list(group.values),
        "compilations": list(group.compilations),
        "others": cause.others,
        "also": list(group.also),
        "seconds": group.seconds,
        "expected": group.expected,
        "why_expected": group.why_expected,
        "outlook": str(group.prospect.outlook),
        "why": group.prospect.why,
        "reason": cause.reason,
        "fix": group.fix,
        "advice": {"before": advice.before, "after": advice.after, "switch": advice.switch, "risk": advice.risk},
    }


def _more(recompile: Recompile) -> dict[str, Any]:
    """Say more of a recompile than `explain` does."""
    return {
        "why_expected": recompile.why_expected,
        "reason": recompile.reason,
        "nearest": recompile.nearest,
        "distances": dict(recompile.distances),
    }


def _cache(cache: Cache, cwd: str) -> dict[str, Any]:
    return {
        "function": cache.function,
        "file": fmt.path(cache.file, cwd),
        "line": cache.line,
        "entries": [{"id": each.id, "seconds": each.seconds} for each in cache.entries],
        "used": cache.use.used if cache.use else len(cache.entries),
        "of": cache.use and cache.use.of,
        "objects": list(cache.objects),
        "refused": cache.refused,
        "ops_left": cache.left,
    }
