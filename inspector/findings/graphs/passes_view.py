"""Prepare what a view shows of passes: the changes of each pass, in order, and the names of passes without changes."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from ctrace.inspector.facts.graph_facts import GraphStage
from ctrace.inspector.facts.passes import Pass
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.graph_view import CompiledGraph, Staged

_POSITIONS = {
    GraphStage.DYNAMO: 0,
    GraphStage.BEFORE_PRE_GRAD: 1,
    GraphStage.PRE_GRAD: 3,
    GraphStage.JOINT: 4,
    GraphStage.INFERENCE: 4,
    GraphStage.BEFORE_JOINT: 5,
    GraphStage.AFTER_JOINT: 7,
    GraphStage.FORWARD: 7,
    GraphStage.BACKWARD: 7,
    GraphStage.BEFORE_POST_GRAD: 8,
    GraphStage.POST_GRAD: 10,
}
_RUN_AT = {"pre_grad_passes": 2, "joint_graph_passes": 6, "post_grad_passes": 9}
"""Where passes run in the order of stages: torch prints a joint graph before its passes, its partitions after them."""
# Chosen: an origin with more lines is the whole model, and says nothing.
_FEW = 4


class PassRun(Struct, frozen=True):
    """The passes of one subsystem over one graph at one stage."""

    graph: str
    stage: str
    subsystem: str
    changed: tuple[Pass, ...]
    """Passes that changed the graph or matched patterns in it."""
    idle: tuple[str, ...]
    """Names of the passes that did nothing, each once."""


def runs(session: Session, graph: str | None = None) -> tuple[PassRun, ...]:
    """Group the passes by graph, stage and subsystem, in the order in which the groups started."""
    parts: dict[tuple[str, str, str], list[Pass]] = {}
    for each in session.passes:
        if graph in (None, each.graph):
            parts.setdefault((each.graph, each.stage, each.subsystem), []).append(each)
    return tuple(_run(*key, done) for key, done in parts.items())


def _run(graph: str, stage: str, subsystem: str, done: list[Pass]) -> PassRun:
    changed = tuple(each for each in done if each.has_changed or each.patterns)
    busy = {each.title for each in changed}
    idle = dict.fromkeys(each.title for each in done if each.title not in busy)
    return PassRun(graph, stage, subsystem, changed, tuple(idle))


def between(session: Session, each: CompiledGraph, before: Staged, after: Staged) -> tuple[PassRun, ...]:
    """Return the passes that ran over a graph between two of its stages."""
    first, last = _POSITIONS[before.stage], _POSITIONS[after.stage]
    parts = (after.part, before.part)
    return tuple(
        run
        for run in runs(session, each.id)
        if first < _RUN_AT.get(run.subsystem, -1) < last and (run.stage not in _PARTS or run.stage in parts)
    )


_PARTS = ("forward", "backward", "inference")


class Origin(Struct, frozen=True):
    """The pass that created a node, and the lines whose nodes it replaced; empty if these are many."""

    title: str
    lines: tuple[str, ...] = ()


def origins(session: Session, graph: str) -> dict[str, Origin]:
    """Map the names of nodes to the pass that created them."""
    found: dict[str, Origin] = {}
    for each in session.passes:
        if each.graph == graph:
            found.update(dict.fromkeys((name for name, _ in each.created), _origin(each)))
    return found


def _origin(each: Pass) -> Origin:
    lines = tuple(dict.fromkeys(line for pattern in each.patterns for line in pattern.lines))
    return Origin(each.title, lines if len(lines) <= _FEW else ())


def common_origin(known: Mapping[str, Origin], names: Iterable[str]) -> Origin | None:
    """Return the pass that created all these nodes; None if no single pass did."""
    # A node without a known pass adds None, so that nodes of a pass and others have no common origin.
    found = {known.get(name) for name in names}
    if len(found) == 1:
        return found.pop()
    return None
