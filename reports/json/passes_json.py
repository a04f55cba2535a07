"""What Inductor's passes changed, and whether attention is fused, as data for JSON reports."""

from typing import Any

from ctrace.inspector.facts.passes import Attention, Pass
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.attention_view import AttentionGroup, answers
from ctrace.inspector.findings.graphs.passes_view import PassRun, difference
from ctrace.reports import format as fmt


def passes_data(session: Session, graph_id: str | None = None) -> list[dict[str, Any]]:
    """Return the passes over one graph or all graphs; a pass that changed nothing has only its name."""
    cwd = session.environment.cwd
    return [_pass(each, cwd) for each in session.passes if graph_id in (None, each.graph)]


def run_data(run: PassRun, cwd: str) -> list[dict[str, Any]]:
    """Return the passes that changed the graph in one run of a subsystem."""
    return [_pass(each, cwd) for each in run.changed]


def _pass(each: Pass, cwd: str) -> dict[str, Any]:
    head = {
        "graph": each.graph,
        "stage": each.stage,
        "subsystem": each.subsystem or None,
        "name": each.title,
        "within": list(each.within),
        "nodes_before": each.before,
        "nodes_after": each.after,
        "changed": each.has_changed,
    }
    if not each.has_changed and not each.patterns:
        return head
    return {
        **head,
        "ops": difference(each),
        "created": [{"name": name, "op": op} for name, op in each.created],
        "erased": [{"name": name, "op": op} for name, op in each.erased],
        "retargeted": [{"name": name, "before": before, "after": after} for name, before, after in each.retargeted],
        "rewired": each.rewired,
        "moved": each.moved,
        "counters": dict(each.counters),
        "patterns": [
            {
                "name": pattern.name,
                "times": pattern.times,
                "nodes": pattern.nodes,
                "ops": list(pattern.ops),
                "lines": [line_data(line, cwd) for line in pattern.lines],
            }
            for pattern in each.patterns
        ],
    }


def attention_data(session: Session, graph_id: str | None = None) -> list[dict[str, Any]]:
    """Return the outcome of each attention in one graph or in all graphs."""
    cwd = session.environment.cwd
    return [_attention(each, cwd) for each in answers(session, graph_id)]


def _attention(answer: AttentionGroup, cwd: str) -> dict[str, Any]:
    each = answer.attention
    return {
        "graph": each.graph,
        "stage": each.stage,
        "state": str(answer.state),
        "by_hand": each.call is None,
        "times": answer.times,
        "lines": [line_data(line, cwd) for line in each.lines],
        "nodes": list(each.nodes),
        "dtype": each.dtype,
        "device": each.device,
        "fused": list(each.fused),
        "pattern": each.matched,
        "counted": each.counted,
        "softmax_dimension": each.axis,
        "why": _why(each, answer, cwd),
        "fix": answer.fix,
    }


def _why(each: Attention, answer: AttentionGroup, cwd: str) -> dict[str, Any] | None:
    if each.why is None:
        return {"code": str(answer.state), "text": answer.why, "lines": []} if answer.why else None
    return {
        "code": each.why.code,
        "text": answer.why,
        "nearest_pattern": each.why.pattern or None,
        "also": list(each.why.also),
        "lines": [line_data(line, cwd) for line in each.why.lines],
    }


def line_data(line: str, cwd: str) -> dict[str, Any]:
    """Split `file:line`."""
    file, _, number = line.rpartition(":")
    return {"file": fmt.relative(file, cwd), "line": int(number)}
