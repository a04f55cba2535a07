"""Missed fusions as findings, each with an id that stays the same between runs of the same code."""

import hashlib

from msgspec import Struct

from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.missed_fusions import alike, not_fused

_MOST = 10
"""Pairs of kernels for which a repair is looked for, the largest first."""


class MissedFinding(Struct, frozen=True):
    """Two kernels that share data but are not fused."""

    id: str
    first: tuple[str, ...]
    """Ops of the kernel that runs first."""
    second: tuple[str, ...]
    lines: tuple[str, ...]
    bytes: int
    times: int


def missed_findings(session: Session) -> tuple[MissedFinding, ...]:
    """Return the missed fusions with at least one kernel that Inductor generates, the most bytes first."""
    pairs = [each for fusion in session.fusions for each in not_fused(fusion).missed if each.is_possible and each.bytes]
    found = []
    for kind in alike(sorted(pairs, key=lambda each: -each.bytes))[:_MOST]:
        one = kind.example
        first, second = tuple(map(str, one.first.ops)), tuple(map(str, one.second.ops))
        lines = tuple(dict.fromkeys(map(str, (*one.first.lines, *one.second.lines))))
        text = "\0".join((*first, "", *second, "", *lines))
        id_ = f"missed_fusion-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"
        found.append(MissedFinding(id_, first, second, lines, one.bytes, kind.times))
    return tuple(found)
