"""Repairs as JSON, for programs. Names are fixed: they may be added to, never renamed."""

from datetime import UTC, datetime
from typing import Any

from ctrace.inspector.features.fix.repairs.missed_repairs import MissedFinding
from ctrace.inspector.features.fix.repairs.repair_result import (
    Combined,
    CombinedStep,
    Fixes,
    Obligation,
    ProofCheck,
    TriedRepair,
)
from ctrace.reports.escape import Document, json_document
from ctrace.reports.json.printer import SCHEMA, plain


def render_fix_json(fixes: Fixes) -> Document:
    """Write what `ctrace fix` found, tried and proved."""
    return json_document(fix_data(fixes))


def fix_data(fixes: Fixes) -> dict[str, Any]:
    """Return the result as plain data; `combined` is null if nothing is proved."""
    session = fixes.session
    cwd = session.environment.cwd
    return {
        "schema": SCHEMA,
        "verdict": str(session.verdict),
        "target": plain(session.target, cwd),
        "findings": plain(fixes.findings, cwd),
        "advice": plain(fixes.advice, cwd),
        "missed_fusions": [_missed(each) for each in fixes.missed],
        "repairs": [_tried(each) for each in fixes.repairs],
        "combined": None if fixes.combined is None else _combined(fixes.combined),
        "unstable": fixes.unstable or None,
        "not_asked": list(fixes.not_asked),
        "budget_spent": fixes.budget_spent,
        "untried": fixes.untried,
        "left_out": list(fixes.left_out),
        "interrupted": fixes.interrupted,
        "seconds": round(fixes.seconds, 2),
        "problems": list(fixes.problems),
        "proved_at": None if fixes.proved_at is None else _moment(fixes.proved_at),
    }


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _missed(each: MissedFinding) -> dict[str, Any]:
    return {
        "id": each.id,
        "first": list(each.first),
        "second": list(each.second),
        "lines": list(each.lines),
        "bytes": each.bytes,
        "times": each.times,
    }


def _tried(each: TriedRepair) -> dict[str, Any]:
    effect = each.outcome.effect
    return {
        "finding": each.finding,
        "findings": list(each.findings),
        "name": each.name,
        "kind": each.kind,
        "summary": each.summary,
        "proved": each.proved,
        "why": each.outcome.why or None,
        "checks": [_check(check) for check in each.outcome.checks],
        "obligations": [_obligation(one) for one in each.outcome.obligations],
        "eager_slowdown": _rounded(each.outcome.eager_slowdown),
        "later_recompiles": None if each.outcome.later is None else list(each.outcome.later),
        "effect": plain(effect, ""),
        "changes_arithmetic": each.changes_arithmetic,
        "question": each.question or None,
        "library": each.library or None,
        "how": each.how or None,
        "patch": each.patch,
    }


def _check(each: ProofCheck) -> dict[str, Any]:
    return {"name": each.name, "passed": each.passed, "detail": each.detail}


def _obligation(each: Obligation) -> dict[str, Any]:
    return {"name": each.name, "closed": each.closed, "how": str(each.how), "detail": each.detail}


def _rounded(ratio: float | None) -> float | None:
    return None if ratio is None else round(ratio, 2)


def _combined(each: Combined) -> dict[str, Any]:
    effect = each.outcome.effect
    return {
        "repairs": [_step(step) for step in each.steps],
        "findings": list(each.findings),
        "proved": each.outcome.proved,
        "why": each.outcome.why or None,
        "note": each.outcome.note,
        "checks": [_check(check) for check in each.outcome.checks],
        "obligations": [_obligation(one) for one in each.outcome.obligations],
        "eager_slowdown": _rounded(each.outcome.eager_slowdown),
        "later_recompiles": None if each.outcome.later is None else list(each.outcome.later),
        "effect": plain(effect, ""),
        "how": list(each.how),
        "patch": each.patch,
    }


def _step(each: CombinedStep) -> dict[str, Any]:
    found = each.counts
    return {
        "name": each.name,
        "summary": each.summary,
        "graphs": found.graphs,
        "breaks": found.breaks,
        "recompiles": found.recompiles,
        "coverage": found.coverage,
    }
