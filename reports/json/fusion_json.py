"""Fusion as JSON, for programs."""

from typing import Any

from ctrace.inspector.facts.fusion_facts import Access, Buffer, Fusion, FusionRound, Node, Score
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.target_facts import Basis
from ctrace.inspector.findings.fusion.fusion_view import kinds, ops_lowered
from ctrace.inspector.findings.fusion.missed_fusions import Missed, not_fused
from ctrace.inspector.findings.fusion.order import Ranked, ending, ranked, unranked
from ctrace.inspector.findings.fusion.totals import totals
from ctrace.reports.escape import Document, json_document
from ctrace.reports.json.fusion_summary import lines_data, missed_data
from ctrace.reports.json.printer import SCHEMA
from ctrace.reports.json.target_json import WORK, emitted, target_data
from ctrace.reports.wording.fusion_wording import order_text


def render_fusion_json(session: Session, found: tuple[Fusion, ...]) -> Document:
    """Write the fusion of some graph parts in full, indented, with a final newline."""
    data = {
        "schema": SCHEMA,
        "verdict": str(session.verdict),
        "target_gpu": target_data(session),
        "fusion": [_part(session, each) for each in found],
        "problems": [{"what": problem.what, "line": problem.line} for problem in session.problems],
    }
    return json_document(data)


def _part(session: Session, fusion: Fusion) -> dict[str, Any]:
    cwd = session.environment.cwd
    return {
        "basis": str(Basis.EMITTED),
        "graph": fusion.graph,
        "stage": str(fusion.stage),
        "ops": ops_lowered(session, fusion),
        "nodes_before": fusion.before,
        "nodes_after": fusion.after,
        "bytes": _totals(fusion),
        "rounds": [_round(each) for each in fusion.rounds],
        "end": ending(fusion) or None,
        "refusals": fusion.refused,
        **_recorded(fusion, cwd),
    }


def _recorded(fusion: Fusion, cwd: str) -> dict[str, Any]:
    """Return the nodes, buffers and missed fusions; all of them None if the log does not record the nodes."""
    names = (
        "kinds_before",
        "kinds_after",
        "nodes",
        "result",
        "buffers",
        "outputs",
        "missed",
        "pairs_without_shared_data",
    )
    if totals(fusion) is None:
        return dict.fromkeys(names)
    pairs = not_fused(fusion)
    values = (
        {str(kind): number for kind, number in kinds(fusion.nodes).items()},
        {str(kind): number for kind, number in kinds(fusion.result).items()},
        [_node(each, cwd) for each in fusion.nodes],
        [_node(each, cwd) for each in fusion.result],
        [_buffer(each) for each in fusion.buffers],
        list(fusion.outputs),
        [_missed(each, cwd) for each in pairs.missed],
        pairs.hidden,
    )
    return dict(zip(names, values, strict=True))


def _totals(fusion: Fusion) -> dict[str, Any] | None:
    found = totals(fusion)
    if found is None:
        return None
    return {
        "basis": str(Basis.COMPUTED),
        "unfused": found.unfused,
        "fused": found.fused,
        "least": found.least,
        "least_with_calls": found.least_with_calls,
        "calls": found.calls,
    }


def _round(each: FusionRound) -> dict[str, Any]:
    return {
        "reorder": each.reorder,
        "nodes_before": each.before,
        "nodes_after": each.after,
        "tried": each.tried,
        "candidates": [_candidate(one) for one in ranked(each)],
        "fused": [list(pair) for pair in each.fused],
        "fused_without_candidate": [list(pair) for pair in unranked(each)] if each.candidates else [],
        "refused": [{"first": one.first, "second": one.second, "reason": one.reason or None} for one in each.refused],
    }


def _candidate(one: Ranked) -> dict[str, Any]:
    return {
        "first": one.candidate.first,
        "second": one.candidate.second,
        "score": one.candidate.score and _score(one.candidate.score),
        "fused": one.fused and list(one.fused),
        "joined": one.is_joined,
        "before_next": one.deciding or None,
        "order": order_text(one) or None,
    }


def _score(score: Score) -> dict[str, int]:
    return {
        "template": score.template,
        "kind": score.kind,
        "shared": score.shared,
        "overlap": score.overlap,
        "proximity": score.proximity,
    }


def _node(node: Node, cwd: str) -> dict[str, Any]:
    data = {
        "name": node.name,
        "kind": str(node.kind),
        "operations": list(node.operations),
        "loops": node.loops,
        "ops": list(node.ops),
        "lines": lines_data(node.lines, cwd),
        "read": node.read,
        "written": node.written,
        "flops": node.flops,
        "accesses": [_access(each) for each in node.accesses],
    }
    return emitted(data, *WORK, "accesses")


def _access(each: Access) -> dict[str, Any]:
    return {"buffer": each.buffer, "read": each.read, "written": each.written}


def _buffer(each: Buffer) -> dict[str, Any]:
    return {
        "name": each.name,
        "role": str(each.role),
        "dtype": each.dtype or None,
        "shape": list(each.shape),
        "stride": list(each.stride),
        "device": each.device,
        "bytes": each.bytes,
    }


def _missed(each: Missed, cwd: str) -> dict[str, Any]:
    shared = [
        {
            "buffer": one.buffer,
            "read": one.read,
            "written": one.written,
            "produced": one.produced,
            "perhaps": one.perhaps,
        }
        for one in each.shared
    ]
    return {**missed_data(each, cwd), "shared": shared}
