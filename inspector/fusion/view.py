"""What `ctrace fusion` is about: graph parts, and the nodes of each by names that a user knows."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ctrace.inspector.errors import SelectionError
from ctrace.inspector.graphs.text.ops import is_view, operations
from ctrace.inspector.graphs.view import compiled, instead
from ctrace.inspector.model.fusion import Fusion, Node, NodeKind
from ctrace.inspector.model.graphs import GraphStage
from ctrace.inspector.model.kernels import Stage
from ctrace.inspector.model.session import Session


@dataclass(frozen=True, slots=True)
class Called:
    """A node as a user knows it, by the ops it computes and the lines that they come from."""

    name: str
    """Torch's."""
    ops: tuple[str, ...]
    lines: tuple[str, ...]
    operations: int
    """How many nodes it was fused from."""


def parts(session: Session, graph: str | None = None, stage: str | None = None) -> tuple[Fusion, ...]:
    """List the graph parts that Inductor's scheduler worked on, or those of a graph or a stage.

    Raises:
        TargetError: there is no such graph or stage.
    """
    found = session.fusions
    if graph is not None:
        ids = list(dict.fromkeys(each.graph for each in found))
        found = tuple(each for each in found if each.graph == graph)
        if not found:
            raise SelectionError("graph", f"{graph}: Inductor's scheduler saw no such graph", instead(graph, ids))
    if stage is not None:
        known = list(dict.fromkeys(str(each.stage) for each in found))
        wanted = stage.strip().lower()
        found = tuple(each for each in found if each.stage == wanted)
        if not found:
            where = f"graph {graph}" if graph else "this run"
            raise SelectionError("stage", f"{stage}: {where} has no such part", instead(wanted, known))
    return found


def kinds(nodes: Iterable[Node]) -> Mapping[NodeKind, int]:
    """Count nodes by kind, most first."""
    return dict(Counter(node.kind for node in nodes).most_common())


def ops_lowered(session: Session, fusion: Fusion) -> int | None:
    """Count the ops, without views, of the graph that Inductor lowered to nodes; None where it is not in the log."""
    if fusion.graph not in session.printed or all(fusion.graph != each.id for each in session.compilations):
        return None
    for staged in compiled(session, fusion.graph)[0].stages:
        is_it = staged.stage is GraphStage.POST_GRAD and staged.part is Stage(fusion.stage)
        if is_it and staged.graph is not None:
            return sum(not is_view(node) for node in operations(staged.graph))
    return None


class Names:
    """Gives nodes, by torch's names, the names that a user knows."""

    def __init__(self, fusion: Fusion) -> None:
        self._by_operation = {operation: node for node in fusion.nodes for operation in node.operations}
        self._result = {node.name: node for node in fusion.result}

    def of(self, name: str) -> Called:
        """Name a node of any round: what it holds is in its name, joined by `_`."""
        if name in self._result:
            return called(self._result[name])
        held = [self._by_operation[each] for each in name.split("_") if each in self._by_operation]
        return Called(name, _once(node.ops for node in held), _once(node.lines for node in held), max(len(held), 1))


def called(node: Node) -> Called:
    """Name a node."""
    return Called(node.name, node.ops, node.lines, len(node.operations))


def _once(lists: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for some in lists for each in some))
