"""What `ctrace breaks` answers: graph breaks, what they cost, what to change, and what else runs eagerly."""

from collections.abc import Mapping
from typing import ClassVar

from ctrace.inspector.diagnosis.sentences import advised, suggested
from ctrace.inspector.facts.diagnosis import Finding, Suggestion
from ctrace.inspector.facts.findings import Owner, Skip
from ctrace.inspector.facts.session import Coverage, Function, RunDocument, Session
from ctrace.inspector.findings.breaks.break_view import RankedBreak, never_compiled, ranked, unclaimed_ops


class BreaksDocument(RunDocument, frozen=True, kw_only=True):
    """The breaks, the costliest first, and the functions that run eagerly."""

    JSON: ClassVar[str] = "schema verdict=run.verdict coverage breaks advice skipped functions problems=run.problems"
    coverage: Coverage
    breaks: tuple[RankedBreak, ...]
    advice: tuple[Suggestion, ...]
    skipped: tuple[Skip, ...]
    functions: tuple[Function, ...]
    fixes: Mapping[int, str]
    """What to do about each break, by its number; breaks without advice are left out."""
    others: int
    """How many breaks have other owners than those asked for."""
    never_compiled: tuple[Function, ...]
    unclaimed_ops: int
    """How many ops run eagerly that no break and no skip explains."""
    listings: Mapping[str, str]
    """Source text, keyed by file."""


def breaks_document(session: Session, owner: Owner | None = None) -> BreaksDocument:
    """Answer for all breaks, or for those in code of one owner."""
    found = ranked(session, owner)
    return BreaksDocument(
        run=session.run,
        coverage=session.coverage,
        breaks=found,
        advice=suggested(session, Finding.BREAK, Finding.SKIP),
        skipped=session.skips,
        functions=session.functions,
        fixes=advised(session, Finding.BREAK),
        others=len(session.breaks) - len(found),
        never_compiled=never_compiled(session),
        unclaimed_ops=unclaimed_ops(session),
        listings=session.listings,
    )
