"""Compare the findings of two runs: which are gone, and which are new."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from ctrace.inspector.diagnosis.diagnosis_scene import DiagnosisScene
from ctrace.inspector.diagnosis.root_causes import root_causes
from ctrace.inspector.facts.diagnosis import Finding, RootCause
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.attention_view import AttentionState, state_of

ATTENTION = "attention"
"""Findings that only Inductor shows."""

Key = tuple[Any, ...]


def scene_of(session: Session) -> DiagnosisScene:
    """Return a run with its root causes."""
    return DiagnosisScene(session, root_causes(session))


def keys_of(session: Session) -> Counter[Key]:
    """Count the findings of a run, in a form that does not change when lines move."""
    return Counter([key for _, _, key in _keys(session)])


def new_keys(before: Session, after: Session) -> tuple[Counter[Key], Counter[Key]]:
    """Count the findings that only the second run has: at places that were fine before, and at those that broke before.

    One place may break for another reason once the first one is gone, which torch reports under another id.
    """
    found = keys_of(after) - keys_of(before)
    known = {_place(key) for key in keys_of(before)} - {None}
    renamed = Counter({key: number for key, number in found.items() if _place(key) in known})
    return found - renamed, renamed


def _place(key: Key) -> Key | None:
    """Return where a break or a skipped function is; None: any other finding, which has no such place."""
    match key:
        case ("break", _, file, source):
            return "break", file, source
        case ("skip", function, file, _):
            return "skip", function, file
    return None


def is_left(key: Key, renamed: Iterable[Key]) -> bool:
    """Whether the place of a finding is among those that still break."""
    return _place(key) is not None and any(_place(each) == _place(key) for each in renamed)


def keys_of_cause(cause: RootCause, session: Session) -> Counter[Key]:
    """Count the findings that a root cause stands for."""
    mine = {(each.what, each.index) for each in cause.symptoms}
    found = [key for what, index, key in _keys(session) if (what, index) in mine]
    # A recompilation may have several causes: a repair of one leaves the others.
    own = [key for key in found if key[0] != "recompile" or key[3] == str(cause.kind)]
    return Counter(own or found)


def _keys(session: Session) -> Iterator[tuple[Finding, int, Key]]:
    if session.failure is not None:
        yield Finding.FAILURE, 0, ("failure", session.failure.type)
    for index, broken in enumerate(session.breaks):
        # Several lines of the user may lead to one place of a library: each is repaired where it is.
        for line in broken.user_lines:
            yield Finding.BREAK, index, ("break", broken.gb, line.at.file, " ".join(line.at.source.split()))
    for index, skip in enumerate(session.skips):
        yield Finding.SKIP, index, ("skip", skip.function, skip.file, skip.rule)
    for index, recompile in enumerate(session.recompiles):
        for kind, subject in [(str(each.kind), each.subject) for each in recompile.causes] or [("", "")]:
            yield Finding.RECOMPILE, index, ("recompile", recompile.function, recompile.file, kind, subject)
    for index, danger in enumerate(session.dangers):
        yield Finding.DANGER, index, ("danger", danger.kind, danger.subject)
    for index, attention in enumerate(session.attention):
        if state_of(attention) not in (AttentionState.FUSED, AttentionState.MATCHED):
            yield Finding.ATTENTION, index, (ATTENTION, str(state_of(attention)))


def words_of(key: Key) -> str:
    """Say what a finding is, in a few words."""
    match key:
        case ("break", _, _, source):
            return f"a graph break at `{source}`"
        case ("skip", function, *_):
            return f"{function} now runs eagerly"
        case ("recompile", function, _, _, subject):
            return f"{function} recompiles{f' for {subject}' if subject else ''}"
        case ("attention", *_):
            return "an attention that is not fused"
        case ("danger", _, subject):
            return f"a result that differs from eager{f' ({subject})' if subject else ''}"
    return " ".join(map(str, key))
