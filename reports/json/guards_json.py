"""Guards as JSON, for programs."""

from typing import Any

from ctrace.inspector.facts.guard_facts import Duration, Guard, GuardCost, GuardNode
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.guards.guard_view import GuardedCompilation, GuardFilter, Head, about, guarded
from ctrace.inspector.findings.guards.guarded_tensors import TensorGuard, tensor_guards
from ctrace.reports import format as fmt
from ctrace.reports.escape import Document, json_document
from ctrace.reports.json.printer import SCHEMA


def render_guards_json(session: Session, found: tuple[Head, ...], choice: GuardFilter) -> Document:
    """Write the guards of some compilations, indented, with a final newline."""
    cwd = session.environment.cwd
    data = {
        "schema": SCHEMA,
        "verdict": str(session.verdict),
        "compilations": [_compilation(guarded(session, head), choice, cwd) for head in found],
        "problems": [{"what": problem.what, "line": problem.line} for problem in session.problems],
    }
    return json_document(data)


def _compilation(each: GuardedCompilation, choice: GuardFilter, cwd: str) -> dict[str, Any]:
    at = each.head.compilation
    chosen = [guard for guard in each.guards if choice.takes(guard)]
    return {
        "compilation": at.id,
        "function": at.function,
        "file": fmt.relative(at.file, cwd),
        "line": at.resumes_at or at.line,
        "latency_us": each.head.latency,
        "number": len(each.guards),
        "guards": [_guard(guard, cwd) for guard in chosen],
        "tensors": [_tensor(tensor, cwd) for tensor in tensor_guards(chosen)],
        "tree": None if choice else _node(each.tree.root),
        "left_out": [{"kind": left.kind, "why": left.why, "number": left.number} for left in each.left_out],
        "cost": each.cost and _cost(each.cost),
        "unread": each.tree.unread,
        "misplaced": each.tree.is_misplaced,
    }


def _guard(guard: Guard, cwd: str) -> dict[str, Any]:
    place = guard.place
    return {
        "kind": guard.kind,
        "code": guard.code,
        "source": guard.source,
        "name": about(guard),
        "file": place and fmt.relative(place.file, cwd),
        "line": place and place.line,
        "hint": guard.hint,
    }


def _tensor(tensor: TensorGuard, cwd: str) -> dict[str, Any]:
    return {
        **_guard(tensor.guard, cwd),
        "name": tensor.name,
        "class": tensor.type,
        "dtype": tensor.dtype,
        "device": tensor.device,
        "requires_grad": tensor.requires_grad,
        "dispatch_keys": list(tensor.dispatch_keys),
        "ndim": len(tensor.sizes),
        "sizes": list(tensor.sizes),
        "strides": list(tensor.strides),
        "layout": tensor.layout,
        "parameter": tensor.is_parameter,
    }


def _node(node: GuardNode) -> dict[str, Any]:
    return {
        "source": node.source,
        "type": node.type,
        "accessor": node.accessor,
        "guards": [{"kind": guard.kind, "code": guard.code} for guard in node.guards],
        "nodes": [_node(each) for each in node.nodes],
    }


def _cost(cost: GuardCost) -> dict[str, Any]:
    return {
        "unit": "us",
        "whole": _duration(cost.whole),
        "plain": _duration(cost.plain),
        "root": _duration(cost.root),
        "epilogue_warm": cost.epilogue,
        "parts": [
            {"source": part.source, "depth": part.depth, "guards": part.guards, **_duration(part.time)}
            for part in cost.parts
        ],
        "kinds": [{"kind": kind.kind, "number": kind.number, "warm": kind.warm} for kind in cost.kinds],
    }


def _duration(time: Duration) -> dict[str, float]:
    return {"cold": time.cold, "warm": time.warm}
