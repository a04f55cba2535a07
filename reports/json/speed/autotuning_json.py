"""Autotuning as JSON, for programs. Names are fixed: they may be added to, never renamed."""

from typing import Any

from ctrace.inspector.facts.autotuning import Choice, TimeSpread, TunedOperation, Untried
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.autotuning.autotuning_view import (
    KernelRow,
    Margin,
    cost,
    kernel_rows,
    margin,
    sentence,
    tuned,
    why_nothing_was_timed,
    winner,
)
from ctrace.reports.escape import Document, json_document
from ctrace.reports.json.printer import SCHEMA


def render_autotuning_json(session: Session, graph: str | None = None, op: str | None = None) -> Document:
    """Write each operation with its choices; times in seconds, null where there is none."""
    operations = tuned(session, graph, op)
    kernels = kernel_rows(session, graph) if op is None else ()
    is_timed = any(each.is_swept for each in session.tuned) or any(each.taken for each in kernels)
    data = {
        "schema": SCHEMA,
        "verdict": str(session.verdict),
        "summary": sentence(session) or None,
        "seconds": cost(operations),
        "not_timed_because": None if is_timed else why_nothing_was_timed(session)[0],
        "operations": [operation_data(each) for each in operations],
        "kernels": [_kernel(each) for each in kernels],
        "problems": [{"what": problem.what, "line": problem.line} for problem in session.problems],
    }
    return json_document(data)


def operation_data(each: TunedOperation) -> dict[str, Any]:
    """Return one operation.

    `winner` is the fastest choice, `taken` the one that the code uses; `margin` says how much longer the `next` one
    takes, as a part of the winner's time.
    """
    first = winner(each.choices)
    return {
        "graph": each.graph,
        "stage": None if each.stage is None else str(each.stage),
        "op": each.op,
        "shapes": ["x".join(one.shape) for one in each.inputs],
        "strides": [list(one.stride) for one in each.inputs],
        "dtypes": [one.dtype for one in each.inputs],
        "device": each.device,
        "lines": list(each.lines),
        "choices": [_choice(one) for one in each.choices],
        "unnamed_choices": each.unnamed,
        "winner": None if first is None else first.name,
        **_margin(margin(each.choices, each.unnamed)),
        "taken": each.taken,
        "fused": each.is_fused,
        "cached": each.is_cached,
        "seconds": each.seconds,
        "compile_seconds": each.compile_seconds,
        "timing_seconds": each.timing_seconds,
        "not_tried": [_untried(one) for one in each.untried],
    }


def _choice(each: Choice) -> dict[str, Any]:
    return {
        "name": each.name,
        "kind": each.kind or None,
        "configuration": each.configuration,
        "seconds": each.seconds,
        "status": str(each.status),
        "spread": None if each.spread is None else _spread(each.spread),
        "error": each.error or None,
    }


def _spread(each: TimeSpread) -> dict[str, Any]:
    return {
        "runs": each.runs,
        "fastest": each.fastest,
        "low": each.low,
        "median": each.median,
        "high": each.high,
    }


def _untried(each: Untried) -> dict[str, Any]:
    return {"what": each.what, "reasons": list(each.reasons)}


def _margin(found: Margin | None) -> dict[str, Any]:
    if found is None:
        return {"margin": None, "next": None, "noise": None}
    return {"margin": found.part, "next": found.of_next, "noise": str(found.noise)}


def _kernel(each: KernelRow) -> dict[str, Any]:
    """Return one Triton kernel; `key` is the user's, of `triton.autotune`."""
    first = winner(each.configurations)
    return {
        "graph": each.graph,
        "stage": str(each.stage),
        "kernel": each.kernel,
        "user_kernel": None if each.user is None else each.user.kernel,
        "key": [] if each.user is None else list(each.user.key),
        "sizes": dict(each.sizes),
        "configurations": [_choice(one) for one in each.configurations],
        "winner": None if first is None else first.name,
        **_margin(margin(each.configurations)),
        "taken": each.taken,
        "cache": each.cache or None,
        "seconds": each.seconds,
    }
