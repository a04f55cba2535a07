"""The JSON of `ctrace ranks`."""

from typing import Any

from ctrace.inspector.features.compare.ranks.job import Divergence, Job
from ctrace.inspector.features.compare.ranks.rank_summary import Digest
from ctrace.reports.escape import Document, json_document


def render_ranks_json(job: Job) -> Document:
    """Write which ranks agree, and where the first one differs."""
    data = {
        "ranks": list(job.ranks),
        "missing": list(job.first_missing),
        "missing_count": job.missing_count,
        "agree": job.agree,
        "first_divergence": None if job.divergence is None else _divergence(job.divergence),
        "cut": {str(rank): why for rank, why in job.cut.items()},
        "groups": [list(group) for group in job.groups],
        "compilations": [
            {
                "compilation": each.id,
                "function": each.function,
                "file": each.file,
                "line": each.line,
                "groups": [_digests(one) for one in each.contents],
            }
            for each in job.compilations
        ],
        "seconds": {str(rank): seconds for rank, seconds in job.seconds.items()},
        "notes": list(job.notes),
        "reports": list(job.reports),
    }
    return json_document(data)


def _digests(one: Digest | None) -> dict[str, str] | None:
    """Return what a group of ranks compiled, as digests by kind; equal digests mean equal content."""
    return None if one is None else one.digests


def _divergence(found: Divergence) -> dict[str, Any]:
    return {
        "compilation": found.compilation,
        "function": found.function,
        "file": found.file,
        "line": found.line,
        "kind": found.kind,
        "subject": found.subject,
        "values": {str(rank): value for rank, value in found.values.items()},
    }
