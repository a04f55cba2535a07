"""CUDA graphs as JSON, for programs. Names are fixed: new ones may come, old ones never change."""

from typing import Any

from ctrace.inspector.facts.cuda_graphs import CudaGraph, CudaGraphReason
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.cuda_graphs.cuda_graph_view import cuda_graphs, outlook, remedy, why_not_recorded
from ctrace.reports import format as fmt
from ctrace.reports.escape import Document, json_document
from ctrace.reports.json.printer import SCHEMA


def render_cuda_graphs_json(session: Session, graph: str | None = None) -> Document:
    """Write the CUDA graph of each graph part; the list is empty if the mode uses no CUDA graphs."""
    cwd = session.environment.cwd
    data = {
        "schema": SCHEMA,
        "verdict": str(session.verdict),
        "graphs": [cuda_graph_data(each, cwd) for each in cuda_graphs(session, graph)],
        "problems": [{"what": problem.what, "line": problem.line} for problem in session.problems],
    }
    return json_document(data)


def cuda_graph_data(each: CudaGraph, cwd: str) -> dict[str, Any]:
    """Return one CUDA graph; `recordings` is null if the graph part was not run."""
    return {
        "id": each.graph,
        "stage": str(each.stage),
        "status": str(each.status),
        "reasons": [_reason(reason, cwd) for reason in each.reasons],
        "cannot_hold": [_reason(reason, cwd) for reason in each.found],
        "not_recorded": list(why_not_recorded(each)),
        "fix": remedy(each) or None,
        "recordings": each.recordings,
        "pieces": each.pieces,
        "inputs": list(each.inputs),
        "recorded_again": [_reason(reason, cwd) for reason in each.again],
        "pool_bytes": each.pool_bytes,
        "replay_seconds": each.replay,
        "launched_seconds": each.launched,
        "not_timed": each.untimed or None,
        "limits": each.limits,
        "outlook": outlook(each) or None,
    }


def _reason(reason: CudaGraphReason, cwd: str) -> dict[str, Any]:
    return {
        "text": reason.text,
        "file": None if reason.file is None else fmt.relative(reason.file, cwd),
        "line": reason.line,
    }
