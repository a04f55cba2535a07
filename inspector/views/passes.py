"""What each pass changed, in the order of the passes; those that changed nothing are counted."""

from collections import Counter
from dataclasses import dataclass

from ctrace.inspector.model import Session
from ctrace.inspector.passes import Pass


@dataclass(frozen=True, slots=True)
class Run:
    """The passes of one subsystem over one graph of a stage."""

    graph: str
    stage: str
    subsystem: str
    changed: tuple[Pass, ...]
    """Those that changed the graph, or matched patterns in it."""
    idle: tuple[str, ...]
    """Names of those that did nothing, each once."""


def runs(session: Session, graph: str | None = None) -> tuple[Run, ...]:
    """Give the passes by graph, stage and subsystem, in the order in which they were begun."""
    parts: dict[tuple[str, str, str], list[Pass]] = {}
    for each in session.passes:
        if graph in (None, each.graph):
            parts.setdefault((each.graph, each.stage, each.subsystem), []).append(each)
    return tuple(_run(*key, done) for key, done in parts.items())


def _run(graph: str, stage: str, subsystem: str, done: list[Pass]) -> Run:
    changed = tuple(each for each in done if each.has_changed or each.patterns)
    busy = {each.title for each in changed}
    idle = dict.fromkeys(each.title for each in done if each.title not in busy)
    return Run(graph, stage, subsystem, changed, tuple(idle))


def difference(changed: Pass) -> dict[str, int]:
    """Give, by op, how many nodes more (or, below zero, fewer) the graph has after a pass; the largest first."""
    counted = Counter(changed.created_ops)
    counted.subtract(changed.erased_ops)
    for _, before, after in changed.retargeted:
        counted.update({after: 1, before: -1})
    return dict(sorted(((op, number) for op, number in counted.items() if number), key=lambda item: -abs(item[1])))
