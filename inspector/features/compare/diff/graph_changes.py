"""Match the graphs of two runs by function and content, and compare each pair."""

from collections.abc import Callable, Hashable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.facts.graph_facts import GraphStage
from ctrace.inspector.facts.session import Compilation, Graph, Session
from ctrace.inspector.features.compare.diff.changes import Change, ChangeKind, What, edited
from ctrace.inspector.features.compare.diff.node_changes import NodeChange, fingerprint, graph_changes
from ctrace.inspector.features.compare.diff.site_changes import place, root_of
from ctrace.inspector.findings.graphs.fx import FxGraph
from ctrace.inspector.findings.graphs.graph_view import CompiledGraph, compiled
from ctrace.inspector.findings.site_matching import paired
from ctrace.inspector.knowledge.words.counting import named
from ctrace.inspector.source.relative_paths import relative_path
from ctrace.inspector.source.statements import qualified_name, statement

_ATEN = (GraphStage.FORWARD, GraphStage.INFERENCE, GraphStage.BACKWARD, GraphStage.POST_GRAD)
_MOST = 6
"""The most nodes of one line that a change names."""


class RunGraph(Struct, frozen=True):
    """A graph of one run, and what identifies it in another run."""

    session: Session
    graph: Graph
    compilation: Compilation | None
    compiled: CompiledGraph | None
    file: str
    function: str
    resumes: str
    """For a resume function, the statement at which it resumes."""
    content: Hashable
    """What Dynamo traced; the number of ops if the graph was not printed."""

    @property
    def where(self) -> str:
        """The function's place."""
        return f"{place(self.session, self.graph.file, self.graph.line)} {self.function}"


class Pairs(Struct, frozen=True):
    """The graphs of two runs, those of the earlier run first in each pair."""

    both: tuple[tuple[RunGraph, RunGraph], ...]
    gone: tuple[RunGraph, ...]
    new: tuple[RunGraph, ...]


_ALIKE: tuple[Callable[[RunGraph], Hashable], ...] = (
    lambda each: (each.file, each.function, each.resumes, each.content),
    lambda each: (each.function, each.resumes, each.content),
    lambda each: (each.content, bool(each.resumes)),
    lambda each: (each.file, each.function, each.resumes),
    lambda each: (each.function, each.resumes),
    lambda each: (each.file, each.function, bool(each.resumes)),
)
"""What two matched graphs share, the closest match first: a moved, renamed or edited function is still the same one."""


def pairs_of(before: Session, after: Session) -> Pairs:
    """Match the graphs of two runs."""
    news, olds = list(_graphs(after)), list(_graphs(before))
    both: list[tuple[RunGraph, RunGraph]] = []
    for same in _ALIKE:
        found, news, olds = paired(news, olds, same)
        both += [(old, new) for new, old in found]
    order = {graph.id: at for at, graph in enumerate(after.graphs)}
    both.sort(key=lambda pair: order[pair[1].graph.id])
    return Pairs(tuple(both), tuple(olds), tuple(news))


def _graphs(session: Session) -> Iterator[RunGraph]:
    root, prefixes = root_of(session), session.environment.prefixes
    known = {each.id: each for each in session.compilations}
    printed = {each.id: each for each in compiled(session)}
    for graph in session.graphs:
        stages, compilation = printed.get(graph.id), known.get(graph.id)
        traced = stages.first(GraphStage.DYNAMO) if stages else None
        resumes = ""
        if compilation is not None and compilation.resumes_at:
            resumes = statement(session.listings, compilation.file, compilation.resumes_at, "") or "resumed"
        line = compilation.line if compilation else graph.line
        file = relative_path(graph.file, root, prefixes) if graph.file else ""
        yield RunGraph(
            session=session,
            graph=graph,
            compilation=compilation,
            compiled=stages,
            file=file,
            function=qualified_name(session.listings, graph.file, line, graph.function),
            resumes=resumes,
            content=fingerprint(traced) if traced is not None else graph.ops,
        )


def changes_of(pairs: Pairs, follow: dict[str, tuple[str, ...]]) -> Iterator[Change]:
    """Yield graphs that only one run has, and the nodes that differ between two matched graphs.

    Args:
        pairs: The graphs of both runs.
        follow: What follows from a difference, by the id of the later graph. What a change explains is taken out.
    """
    for old in pairs.gone:
        yield Change(What.GRAPH, ChangeKind.REMOVED, old.where, was=_summary(old))
    for old, new in pairs.both:
        for number, change in enumerate(_between(old, new)):
            yield change if number else replace(change, follows=follow.pop(new.graph.id, ()))
    for new in pairs.new:
        yield Change(What.GRAPH, ChangeKind.ADDED, new.where, now=_summary(new))


def _summary(seen: RunGraph) -> str:
    ops = seen.graph.ops
    after = f", after {seen.resumes}" if seen.resumes else ""
    return f"graph of {ops} {named(ops, 'op')}{after}"


def _between(old: RunGraph, new: RunGraph) -> Iterator[Change]:
    """Yield the differences of the first stage that has any: those of later stages follow from them."""
    is_printed = False
    for one, other in _stages(old, new):
        is_printed = True
        found = list(graph_changes(one, other))
        if found:
            yield from (_change(each, old, new) for each in found)
            return
    if not is_printed and old.graph.ops != new.graph.ops:
        yield edited(What.GRAPH, new.where, _summary(old), _summary(new))


def _stages(old: RunGraph, new: RunGraph) -> Iterator[tuple[FxGraph, FxGraph]]:
    """Yield the graphs of both runs at what Dynamo traced, then at what AOTAutograd and Inductor made of it."""
    if old.compiled is None or new.compiled is None:
        return
    for stage in (GraphStage.DYNAMO, *_ATEN):
        one, other = old.compiled.first(stage), new.compiled.first(stage)
        if one is not None and other is not None:
            yield one, other


def _change(found: NodeChange, old: RunGraph, new: RunGraph) -> Change:
    at, seen = found.at, new if found.now else old
    where = place(seen.session, at.file, at.line) if at else seen.where
    was, now = _listed(found.was), _listed(found.now)
    if was is None:
        how = ChangeKind.ADDED
    elif now is None:
        how = ChangeKind.REMOVED
    else:
        how = ChangeKind.CHANGED
    return Change(What.GRAPH, how, where, was, now)


def _listed(nodes: tuple[str, ...]) -> str | None:
    if not nodes:
        return None
    left = len(nodes) - _MOST
    return ", ".join(nodes[:_MOST]) + (f", and {left} more" if left > 0 else "")
