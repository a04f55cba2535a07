"""Fusion in `explain --json`."""

from typing import Any

from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.fusion.missed_fusions import Missed, top_missed
from ctrace.inspector.findings.fusion.totals import session_totals
from ctrace.inspector.session.summary import fusion_totals
from ctrace.reports import format as fmt
from ctrace.reports.json.target_json import emitted


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
