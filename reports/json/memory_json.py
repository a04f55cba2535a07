"""Memory over time as JSON, for the page."""

from typing import Any

from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.fusion.memory_view import GraphMemory, Moment, PartMemory, memory
from ctrace.reports.escape import Document, json_document
from ctrace.reports.json.fusion_summary import lines_data


def render_memory_json(session: Session) -> Document:
    """Write the bytes that are alive while each kernel runs."""
    return json_document({"graphs": [_graph(each, session.environment.cwd) for each in memory(session)]})


def _graph(each: GraphMemory, cwd: str) -> dict[str, Any]:
    return {
        "basis": "computed",
        "graph": each.graph,
        "peak": None if each.peak is None else each.peak[1].total,
        "saved": None if each.saved is None else each.saved.made,
        "parts": [_part(part, cwd) for part in each.parts],
    }


def _part(part: PartMemory, cwd: str) -> dict[str, Any]:
    return {
        "stage": str(part.stage),
        "unknown": part.unknown,
        "moments": [_moment(each, cwd) for each in part.moments],
    }


def _moment(each: Moment, cwd: str) -> dict[str, Any]:
    return {
        "kernel": each.node.name,
        "ops": list(each.node.ops),
        "lines": lines_data(each.node.lines, cwd),
        "inputs": each.inputs,
        "held": each.held,
        "results": each.results,
        "temporary": each.temporary,
    }
