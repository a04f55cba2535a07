"""Fusion as JSON, for programs: all of it, and in short for `explain --json`."""

from typing import Any

from ctrace.inspector.facts.fusion_facts import Fusion, FusionRound
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.target_facts import Basis
from ctrace.inspector.findings.fusion_totals import session_totals, totals
from ctrace.inspector.findings.fusion_view import Ranked, ending, kinds, ops_lowered, ranked, unranked
from ctrace.inspector.findings.missed_fusions import Missed, not_fused, top_missed
from ctrace.inspector.session.summary import fusion_totals
from ctrace.reports import format as fmt
from ctrace.reports.escape import Document
from ctrace.reports.json.printer import plain
from ctrace.reports.json.target_json import emitted, render_of_run
from ctrace.reports.wording.fusion_wording import order_text


def render_fusion_json(session: Session, found: tuple[Fusion, ...]) -> Document:
    """Write the fusion of some graph parts in full, indented, with a final newline."""
    return render_of_run(session, {"fusion": [_part(session, each) for each in found]})


def _part(session: Session, fusion: Fusion) -> dict[str, Any]:
    cwd = session.environment.cwd
    return {
        "basis": str(Basis.EMITTED),
        "graph": fusion.graph,
        "stage": str(fusion.stage),
        "ops": ops_lowered(session, fusion),
        "nodes_before": fusion.before,
        "nodes_after": fusion.after,
        "bytes": plain(totals(fusion), ""),
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
        plain(fusion.nodes, cwd),
        plain(fusion.result, cwd),
        plain(fusion.buffers, cwd),
        list(fusion.outputs),
        [_missed(each, cwd) for each in pairs.missed],
        pairs.hidden,
    )
    return dict(zip(names, values, strict=True))


def _round(each: FusionRound) -> dict[str, Any]:
    return {
        "reorder": each.reorder,
        "nodes_before": each.before,
        "nodes_after": each.after,
        "tried": each.tried,
        "candidates": [_candidate(one) for one in ranked(each)],
        "fused": [list(pair) for pair in each.fused],
        "fused_without_candidate": [list(pair) for pair in unranked(each)] if each.candidates else [],
        "refused": plain(each.refused, ""),
    }


def _candidate(one: Ranked) -> dict[str, Any]:
    return {
        "first": one.candidate.first,
        "second": one.candidate.second,
        "score": plain(one.candidate.score, ""),
        "fused": one.fused and list(one.fused),
        "joined": one.is_joined,
        "before_next": one.deciding or None,
        "order": order_text(one) or None,
    }


def _missed(each: Missed, cwd: str) -> dict[str, Any]:
    return {**missed_data(each, cwd), "shared": plain(each.shared, cwd)}


def fusion_data(session: Session) -> dict[str, Any] | None:
    """Return nodes, bytes and the most expensive missed fusion of all graph parts; None if nothing was to fuse."""
    nodes, moved, missed = fusion_totals(session), session_totals(session), top_missed(session)
    if nodes is None:
        return None
    data = {
        "rounds": nodes.rounds,
        "nodes_before": nodes.before,
        "nodes_after": nodes.after,
        "bytes_unfused": moved and moved.unfused,
        "bytes_fused": moved and moved.fused,
        "bytes_least": moved and moved.least,
        "missed": missed
        and {
            "graph": missed[0].graph,
            "stage": str(missed[0].stage),
            **missed_data(missed[1], session.environment.cwd),
        },
    }
    return emitted(data, "bytes_unfused", "bytes_fused", "bytes_least")


def missed_data(each: Missed, cwd: str) -> dict[str, Any]:
    """Return a pair that shares data and was not fused."""
    reason = each.reason
    data = {
        "bytes": each.bytes,
        "bytes_perhaps": each.perhaps,
        "nodes": [each.first.name, each.second.name],
        "ops": [list(node.ops) for node in (each.first, each.second)],
        "lines": [lines_data(node.lines, cwd) for node in (each.first, each.second)],
        "reason": reason.key,
        "sentence": reason.sentence,
        "fix": reason.fix,
        "torch": reason.torch or None,
        "library_calls_only": reason.both_called,
    }
    return emitted(data, "bytes", "bytes_perhaps")


def lines_data(lines: tuple[str, ...], cwd: str) -> list[str]:
    """Return lines as `model.py:12`."""
    parted = (line.rpartition(":") for line in lines)
    return [f"{fmt.relative(file, cwd)}:{number}" for file, _, number in parted]
