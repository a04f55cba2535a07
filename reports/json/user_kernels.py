"""Triton kernels that the user wrote, as data for JSON reports."""

from typing import Any

from ctrace.inspector.kernels.user_kernels_view import notes
from ctrace.inspector.model.session import Session
from ctrace.inspector.model.user_kernels import Parameter, TritonOp, UserKernel
from ctrace.reports import format as fmt


def user_kernels_data(session: Session) -> list[dict[str, Any]]:
    """Give each call of a user-written kernel; what is not known is null."""
    return [_kernel(each, session.environment.cwd) for each in session.user_kernels]


def _kernel(each: UserKernel, cwd: str) -> dict[str, Any]:
    return {
        "graph": each.graph,
        "stage": str(each.stage),
        "operation": each.operation,
        "kernel": each.kernel,
        "file": fmt.relative(each.file, cwd),
        "line": each.line,
        "name": each.name or None,
        "lines": list(each.lines),
        "device": each.device,
        "decorators": list(each.decorators),
        "parameters": [_parameter(parameter) for parameter in each.parameters],
        "written": None if each.assumed is None else list(each.written),
        "assumed": None if each.assumed is None else bool(each.assumed),
        "assumed_because": each.assumed or None,
        "grids": [list(grid) for grid in each.grids],
        "configs": [dict(config) for config in each.configs],
        "key": list(each.key),
        "heuristics": list(each.heuristics),
        "restored": list(each.restored),
        "zeroed": list(each.zeroed),
        "flops": each.flops,
        "epilogue": None if each.epilogue is None else str(each.epilogue),
        "op": None if each.op is None else _op(each.op, cwd),
        "notes": [{"text": note.text, "fix": note.todo or None} for note in notes(each)],
    }


def _parameter(each: Parameter) -> dict[str, Any]:
    return {
        "name": each.name,
        "kind": str(each.kind),
        "constexpr": each.constexpr,
        "value": each.value or None,
        "fixed": each.fixed,
        "dtype": each.dtype or None,
        "shape": list(each.shape),
        "written": each.written,
        "read": each.read,
    }


def _op(op: TritonOp, cwd: str) -> dict[str, Any]:
    return {
        "name": op.name,
        "file": fmt.relative(op.file, cwd),
        "line": op.line,
        "fallbacks": list(op.fallbacks),
        "autograd": op.autograd,
        "flops": op.flops,
        "mutates": list(op.mutates),
    }
