"""The JSON of `ctrace diff`."""

from collections.abc import Sequence
from typing import Any

from ctrace.inspector.features.compare.diff.changes import Change, RunDiff, What
from ctrace.reports.escape import Document, json_document


def render_diff_json(before: str, after: str, found: RunDiff, failed_on: Sequence[What] = ()) -> Document:
    """Write every difference between two runs."""
    data = {
        "before": before,
        "after": after,
        "equal": found.equal,
        "direction": found.judgement.direction,
        "why_unknown": found.judgement.why_unknown,
        "numbers": [
            {"what": each.number, "was": each.was, "now": each.now, "direction": each.direction}
            for each in found.judgement.measures
        ],
        "changes": [_change(each) for each in found.changes],
        "compared": list(found.compared),
        "not_compared": [{"what": what, "why": why} for what, why in found.not_compared],
        "notes": list(found.notes),
        "by_settings": found.by_settings,
        "failed_on": list(failed_on),
    }
    return json_document(data)


def _change(change: Change) -> dict[str, Any]:
    return {
        "what": change.what,
        "change": change.how,
        "where": change.where,
        "was": change.was,
        "now": change.now,
        "detail": list(change.detail),
        "follows": list(change.follows),
    }
