"""Synthetic runs for the advice rules: a source file, and its lines with breaks."""

from typing import Any

from msgspec.structs import replace

from ctrace.inspector.diagnosis.advise import diagnose
from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene
from ctrace.inspector.diagnosis.root_causes import root_causes
from ctrace.inspector.facts.diagnosis import Counts, Suggestion
from ctrace.inspector.facts.findings import Break, BreakKind, Owner
from ctrace.inspector.facts.session import Coverage, Graph, Session
from ctrace.inspector.facts.trial import Trial, Tried

FILE = "/home/me/net.py"
LIBRARY = "/env/lib/python3.11/site-packages/kit/net.py"
ITEM = "call_method TensorVariable() item () {}"


def broken(line: int, gb: str = "GB0124", *, file: str = FILE, **parts: Any) -> Break:
    """Return a break; by default one at an `.item()`."""
    owner = Owner.USER if file == FILE else Owner.LIBRARY
    made = Break((gb,), BreakKind.BREAK, owner, file, line, "forward", "", "", "", 1, ("0/0",), called=ITEM)
    return replace(made, **parts)


def ran(text: str, *breaks: Break, file: str = FILE, **parts: Any) -> Session:
    """Return a run of a file with breaks; each break has the source of its line."""
    lines = text.split("\n")
    named = tuple(replace(each, source=lines[each.line - 1].strip()) for each in breaks)
    graphs = tuple(Graph(f"{number}/0", "forward", file, 1, 1) for number in range(len(breaks) + 1))
    return Session(breaks=named, graphs=graphs, coverage=Coverage(10, 9), listings={file: text}, **parts)


def scene(session: Session) -> DiagnosisScene:
    return DiagnosisScene(session, root_causes(session))


def edited(candidate: Candidate) -> list[str]:
    """Return the lines that a trial writes, without indentation."""
    assert candidate.trial is not None
    return [edit.text.strip() for edit in candidate.trial.edits]


def with_trial(session: Session, trial: Trial, counts: Counts | None, *breaks: str) -> Session:
    """Add the outcome of a trial to a run."""
    return replace(session, trials=(*session.trials, Tried(trial, counts, 1.0, breaks)))


def first(session: Session) -> Suggestion:
    return diagnose(session).advice[0]
