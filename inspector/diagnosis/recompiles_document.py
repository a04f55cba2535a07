"""What `ctrace recompiles` answers: recompilations by cause, what to change, and the caches that they fill."""

import re
from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.diagnosis.decoding import plain_name
from ctrace.inspector.diagnosis.sentences import advised, suggested
from ctrace.inspector.facts.diagnosis import Finding, Suggestion
from ctrace.inspector.facts.findings import Recompile
from ctrace.inspector.facts.session import RunDocument, Session
from ctrace.inspector.findings.recompiles.recompile_view import Cache, RecompileGroup, caches, groups
from ctrace.inspector.source.text import Snippet, snippet


class AdvisedGroup(Struct, frozen=True):
    """Recompilations of one function for one cause."""

    JSON: ClassVar[str] = "*of"
    of: RecompileGroup
    advice: str
    """What to change; empty: nothing."""
    source: Snippet | None
    """The line that specialized on the value."""


class RecompilesDocument(RunDocument, frozen=True, kw_only=True):
    """Recompilations, their causes and the caches that they fill."""

    JSON: ClassVar[str] = "schema verdict=run.verdict recompiles advice groups caches problems=run.problems"
    recompiles: tuple[Recompile, ...]
    advice: tuple[Suggestion, ...]
    groups: tuple[AdvisedGroup, ...]
    caches: tuple[Cache, ...]
    graphs: int


def recompiles_document(session: Session) -> RecompilesDocument:
    """Answer for a run."""
    return RecompilesDocument(
        run=session.run,
        recompiles=session.recompiles,
        advice=suggested(session, Finding.RECOMPILE),
        groups=advised_groups(session),
        caches=caches(session),
        graphs=len(session.graphs),
    )


def advised_groups(session: Session) -> tuple[AdvisedGroup, ...]:
    """Group the recompilations, each group with what to change."""
    advice = advised(session, Finding.RECOMPILE)
    return tuple(
        AdvisedGroup(each, advice_on(each, session, advice), _specialized(each, session)) for each in groups(session)
    )


def _specialized(group: RecompileGroup, session: Session) -> Snippet | None:
    if group.is_fixed_here:
        return snippet(session.listings, group.file, group.line, around=0)
    return None


def advice_on(group: RecompileGroup, session: Session, advice: Mapping[int, str]) -> str:
    """Return what `explain` advises on recompilations, or what is known about their kind if they need a change.

    A recompilation may have several causes: advice that is about another one of them is not shown here.

    Args:
        group: the recompilations of a function for one cause.
        session: the run.
        advice: what `explain` advises, by the index of the recompilation.
    """
    mine = {index: each for index, each in enumerate(session.recompiles) if each.compilation in group.compilations}
    lines = [(advice[index], each) for index, each in mine.items() if index in advice]
    own = next((line for line, each in lines if _is_about(line, each, group)), "")
    return own or ("" if group.expected or lines else group.fix)


def _is_about(line: str, recompile: Recompile, group: RecompileGroup) -> bool:
    """Whether advice on a recompilation is about one of its causes: it names that one, or no other."""
    others = {cause.subject for cause in recompile.causes} - {group.subject}
    return _names(line, group.subject) or not any(_names(line, each) for each in others)


def _names(line: str, subject: str) -> bool:
    words = {subject, plain_name(subject)}
    # `x` is named neither by `self.x` nor by a call of `x(...)`.
    return any(re.search(rf"(?<![\w.]){re.escape(each)}(?![\w(])", line) is not None for each in words)
