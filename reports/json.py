"""A Session as JSON, for programs. Names are fixed: they may be added to, never renamed."""

import json
from typing import Any

from ctrace.inspector.model import Break, Cause, Failure, Recompile, Session
from ctrace.inspector.views.summary import fusion_totals
from ctrace.reports import format as fmt

SCHEMA = 1
"""Counts up when a name or its meaning changes. 1: first."""


def render_json(session: Session) -> str:
    """Write the report, indented, with a final newline."""
    return json.dumps(as_data(session), indent=2, ensure_ascii=False) + "\n"


def as_data(session: Session) -> dict[str, Any]:
    """Give the report as plain data."""
    environment = session.environment
    cwd = environment.cwd
    fusion = fusion_totals(session)
    return {
        "schema": SCHEMA,
        "verdict": str(session.verdict),
        "environment": {
            "ctrace": environment.ctrace,
            "torch": environment.torch,
            "triton": environment.triton,
            "python": environment.python,
            "device": environment.device,
            "backend": environment.backend,
            "built": environment.built,
        },
        "target": {"path": session.target.path, "name": session.target.name, "args": list(session.target.args)},
        "error": _failure(session.failure, cwd),
        "scenarios": [{"name": each.name, "calls": each.calls} for each in session.scenarios],
        "graphs": [
            {
                "id": graph.id,
                "function": graph.function,
                "file": fmt.path(graph.file, cwd),
                "line": graph.line,
                "ops": graph.ops,
            }
            for graph in session.graphs
        ],
        "compilations": [
            {
                "id": each.id,
                "function": each.function,
                "file": fmt.path(each.file, cwd),
                "line": each.line,
                "guards": each.guards,
                "bytecode": each.bytecode and {"before": each.bytecode.before, "after": each.bytecode.after},
                "attempts": each.attempts,
                "seconds": each.seconds,
            }
            for each in session.compilations
        ],
        "coverage": {"ops": session.coverage.ops, "compiled": session.coverage.compiled},
        "breaks": [_break(each, cwd) for each in session.breaks],
        "skipped": [
            {
                "function": skip.function,
                "file": fmt.path(skip.file, cwd),
                "line": skip.line,
                "reason": skip.reason,
                "break": skip.break_index,
            }
            for skip in session.skips
        ],
        "recompiles": [_recompile(each, cwd) for each in session.recompiles],
        "limit": {
            "hit": session.limit.hit,
            "functions": [
                {"function": use.function, "used": use.used, "of": use.of} for use in session.limit.functions
            ],
        },
        "fusion": fusion and {"rounds": fusion.rounds, "nodes_before": fusion.before, "nodes_after": fusion.after},
        "kernels": [
            {
                "graph": kernel.graph,
                "stage": str(kernel.stage),
                "name": kernel.name,
                "language": kernel.language,
                "ops": list(kernel.ops),
                "lines": [_line(each, cwd) for each in kernel.lines],
                "calls": kernel.calls,
            }
            for kernel in session.kernels
        ],
        "time": {"total": session.time.total, "phases": dict(session.time.phases)},
        "problems": [{"what": problem.what, "line": problem.line} for problem in session.problems],
        "unknown": dict(session.unknown),
    }


def _failure(failure: Failure | None, cwd: str) -> dict[str, Any] | None:
    if failure is None:
        return None
    return {
        "phase": str(failure.phase),
        "type": failure.type,
        "message": failure.message,
        "file": failure.file and fmt.path(failure.file, cwd),
        "line": failure.line,
    }


def _break(each: Break, cwd: str) -> dict[str, Any]:
    return {
        "gb": list(each.gb),
        "kind": str(each.kind),
        "owner": str(each.owner),
        "file": fmt.path(each.file, cwd),
        "line": each.line,
        "function": each.function,
        "source": each.source,
        "reason": each.reason,
        "fix": each.fix,
        "times": each.times,
        "compilations": list(each.compilations),
    }


def _recompile(each: Recompile, cwd: str) -> dict[str, Any]:
    return {
        "compilation": each.compilation,
        "function": each.function,
        "file": fmt.path(each.file, cwd),
        "line": each.line,
        "expected": each.expected,
        "causes": [_cause(cause) for cause in each.causes],
    }


def _cause(cause: Cause) -> dict[str, Any]:
    return {
        "kind": cause.kind,
        "subject": cause.subject,
        "was": cause.was,
        "now": cause.now,
        "line": cause.line,
        "fix": cause.fix,
    }


def _line(place: str, cwd: str) -> str:
    file, _, line = place.rpartition(":")
    return f"{fmt.path(file, cwd)}:{line}"
