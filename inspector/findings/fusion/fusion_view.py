"""Query graph parts and their scheduler nodes for `ctrace fusion`; name nodes by the user's ops and lines."""

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

from ctrace.inspector.errors import SelectionError
from ctrace.inspector.facts.fusion_facts import Fusion, Node, NodeKind
from ctrace.inspector.facts.graph_facts import GraphStage
from ctrace.inspector.facts.kernels import Stage
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.graph_view import compiled, instead
from ctrace.inspector.findings.graphs.ops import is_view, operations


class Called(Struct, frozen=True):
    """A node as a user knows it: the ops it computes and their source lines."""

    name: str
    """Torch's name."""
    ops: tuple[str, ...]
    lines: tuple[str, ...]
    operations: int
    """How many nodes were fused into it."""


def parts(session: Session, graph: str | None = None, stage: str | None = None) -> tuple[Fusion, ...]:
    """List the graph parts that Inductor's scheduler processed, or only those of a graph or a stage.

    Raises:
        TargetError: there is no such graph or stage.
    """
    found = session.fusions
    if graph is not None:
        ids = list(dict.fromkeys(each.graph for each in found))
        found = tuple(each for each in found if each.graph == graph)
        if not found:
            raise SelectionError("graph", f"{graph}: Inductor's scheduler has no such graph", instead(graph, ids))
    if stage is not None:
        known = list(dict.fromkeys(str(each.stage) for each in found))
        name = stage.strip().lower()
        found = tuple(each for each in found if each.stage == name)
        if not found:
            where = f"graph {graph}" if graph else "this run"
            raise SelectionError("stage", f"{stage}: {where} has no such part", instead(name, known))
    return found


def kinds(nodes: Iterable[Node]) -> Mapping[NodeKind, int]:
    """Count nodes by kind, most first."""
    return dict(Counter(node.kind for node in nodes).most_common())


def ops_lowered(session: Session, fusion: Fusion) -> int | None:
    """Count the ops, without views, of the graph that Inductor lowered; None if the log lacks the graph."""
    if fusion.graph not in session.printed or all(fusion.graph != each.id for each in session.compilations):
        return None
    for staged in compiled(session, fusion.graph)[0].stages:
        is_it = staged.stage is GraphStage.POST_GRAD and staged.part is Stage(fusion.stage)
        if is_it and staged.graph is not None:
            return sum(not is_view(node) for node in operations(staged.graph))
    return None


class UserNames:
    """Translates torch's names of nodes to names that a user knows."""

    def __init__(self, fusion: Fusion) -> None:
        self._by_operation = {operation: node for node in fusion.nodes for operation in node.operations}
        self._result = {node.name: node for node in fusion.result}

    def of(self, name: str) -> Called:
        """Describe a node of any round; torch joins the names of its parts with `_`."""
        if name in self._result:
            return called(self._result[name])
        nodes = [self._by_operation[each] for each in name.split("_") if each in self._by_operation]
        return Called(name, _once(node.ops for node in nodes), _once(node.lines for node in nodes), max(len(nodes), 1))


def called(node: Node) -> Called:
    """Describe a node."""
    return Called(node.name, node.ops, node.lines, len(node.operations))


def _once(lists: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for some in lists for each in some))
