"""What `ctrace fusion` answers: bytes, rounds, nodes and missed fusions of each graph part.

A round has the fused pairs, and what decided their order. Nodes have the names of the user's ops and lines.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import zip_longest
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.errors import SelectionError
from ctrace.inspector.facts.fusion_facts import Buffer, Fusion, FusionCandidate, FusionRound, Node, NodeKind
from ctrace.inspector.facts.graph_facts import GraphStage
from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.session import RunDocument, Session
from ctrace.inspector.facts.target_gpu import Basis
from ctrace.inspector.findings.fusion_totals import Totals, totals
from ctrace.inspector.findings.graphs.fx import is_view, operations
from ctrace.inspector.findings.graphs.graph_view import compiled, instead
from ctrace.inspector.findings.missed_fusions import Missed, not_fused
from ctrace.inspector.findings.target_gpu_view import TargetDevice, target_device
from ctrace.inspector.knowledge.counting import memory


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


MOST_ROUNDS = 10
"""Torch stops after this many rounds (2.11 to 2.13, _inductor/scheduler.py, Scheduler.fuse_nodes)."""
_CLEAR = 16
"""Above this ratio, shared bytes rank before equal kinds (2.11 to 2.13, _inductor/choices.py, FusionScore)."""


class Ranked(Struct, frozen=True):
    """A pair that may be fused, at its rank in the round."""

    JSON: ClassVar[str] = (
        "first=candidate.first second=candidate.second score=candidate.score fused joined=is_joined "
        "before_next=deciding|null_if_empty order|null_if_empty"
    )
    candidate: FusionCandidate
    deciding: str
    """The field of `Score` that ranks the pair before the next one; empty for equal scores and for the last pair."""
    order: str
    fused: tuple[str, str] | None
    """The names of both nodes when torch fused them, with nodes fused before; None if torch did not fuse them."""
    is_joined: bool = False
    """Whether earlier fusions in the round had already put both into one node."""


def ranked(round_: FusionRound) -> tuple[Ranked, ...]:
    """Return the fusible pairs of a round in the order in which Inductor tried them."""
    taken, made = _fused_pairs_by_candidate(round_), [_parts(first) | _parts(second) for first, second in round_.fused]
    found = []
    for number, (each, after) in enumerate(zip_longest(round_.candidates, round_.candidates[1:])):
        both, deciding = _parts(each.first) | _parts(each.second), _deciding(each, after)
        # When a pair's turn comes, earlier fusions of the round may have put both into one node.
        is_joined = number not in taken and any(both <= whole for whole in made)
        found.append(Ranked(each, deciding, _order(each, deciding, after), taken.get(number), is_joined))
    return tuple(found)


def unranked(round_: FusionRound) -> tuple[tuple[str, str], ...]:
    """Return the fused pairs that no recorded candidate matches; in the log of an older ctrace, these are all pairs."""
    taken = list(_fused_pairs_by_candidate(round_).values())
    return tuple(pair for pair in round_.fused if pair not in taken)


class RankedRound(Struct, frozen=True):
    """One round of the scheduler: the number of nodes before and after, and the fused pairs in order."""

    JSON: ClassVar[str] = (
        "reorder=of.reorder nodes_before=of.before nodes_after=of.after tried=of.tried candidates fused=of.fused "
        "fused_without_candidate refused=of.refused"
    )
    of: FusionRound
    name: str
    """`round 1`, ..., and `reorder pass` for the round that may reorder loops."""
    candidates: tuple[Ranked, ...]
    # Empty without candidates: an older ctrace did not record them.
    fused_without_candidate: tuple[tuple[str, str], ...] | tuple[()]


def rounds(fusion: Fusion) -> Iterator[RankedRound]:
    """Yield the rounds of a graph part with their names and their pairs by rank."""
    for number, each in enumerate(fusion.rounds, 1):
        name = "reorder pass" if each.reorder else f"round {number}"
        yield RankedRound(each, name, ranked(each), unranked(each) if each.candidates else ())


def ending(fusion: Fusion) -> str:
    """Explain why there was no further round; empty if not known."""
    usual = [each for each in fusion.rounds if not each.reorder]
    if not usual:
        return ""
    # A single node is left even in the last of the rounds, where the limit would be the wrong reason.
    if usual[-1].after == 1:
        return "one node is left"
    if usual[-1].after == usual[-1].before:
        return "nothing more could be fused"
    if len(usual) >= MOST_ROUNDS:
        return f"torch stops after {MOST_ROUNDS} rounds"
    return ""


def _deciding(each: FusionCandidate, after: FusionCandidate | None) -> str:
    if after is None or each.score is None or after.score is None:
        return ""
    mine, other = each.score, after.score
    # Torch compares `shared` before the kinds if it differs clearly, and after them otherwise (`FusionScore.__lt__`).
    is_far = max(mine.shared, other.shared) > _CLEAR * min(mine.shared, other.shared)
    names = ("template", *(["shared"] if is_far else []), "kind", "shared", "overlap", "proximity")
    return next((name for name in names if getattr(mine, name) != getattr(other, name)), "")


def _order(each: FusionCandidate, deciding: str, after: FusionCandidate | None) -> str:
    """Say why a pair ranks ahead of the next one; empty for the last."""
    if after is None or each.score is None or after.score is None:
        return ""
    other = after.score
    match deciding:
        case "template" if not other.template:
            return "ahead of the next pair, which goes into a template"
        case "template" if other.shared:
            return "ahead of the next pair; one of the two starts with a template"
        case "template":
            return "ahead of the next pair, which shares nothing in the same order"
        case "kind":
            return "ahead of the next pair, whose nodes are less alike"
        case "shared":
            return f"ahead of the next pair, which shares {memory(other.shared)}"
        case "overlap":
            return f"ahead of the next pair, which reads {memory(other.overlap)} in different ways"
        case "proximity":
            return f"ahead of the next pair, which is {-other.proximity} nodes apart"
    return "tied with the next pair; torch found it first"


def _fused_pairs_by_candidate(round_: FusionRound) -> dict[int, tuple[str, str]]:
    """Map the number of each candidate to the fused pair that contains both of its nodes.

    Earlier fusions in the round may have extended either node; torch joins names with `_`.
    """
    left = {pair: (_parts(pair[0]), _parts(pair[1])) for pair in round_.fused}
    found = {}
    for number, each in enumerate(round_.candidates if left else ()):
        first, second = _parts(each.first), _parts(each.second)
        for pair, (one, other) in left.items():
            if (first <= one and second <= other) or (first <= other and second <= one):
                found[number] = pair
                # Each fused pair was one candidate; a second one with the same nodes was joined by it.
                del left[pair]
                break
    return found


@lru_cache(maxsize=4096)
def _parts(name: str) -> frozenset[str]:
    return frozenset(name.split("_"))


class RecordedNodes(Struct, frozen=True, kw_only=True):
    """The nodes and buffers of a graph part, and the pairs of nodes that were not fused."""

    kinds_before: Mapping[NodeKind, int]
    kinds_after: Mapping[NodeKind, int]
    nodes: tuple[Node, ...]
    result: tuple[Node, ...]
    buffers: tuple[Buffer, ...]
    outputs: tuple[str, ...]
    missed: tuple[Missed, ...]
    pairs_without_shared_data: int


class FusedPart(Struct, frozen=True, kw_only=True):
    """How the nodes of one graph part were fused, and which were not."""

    JSON: ClassVar[str] = (
        "basis=FIGURES graph=of.graph stage=of.stage ops nodes_before=of.before nodes_after=of.after bytes rounds "
        "end|null_if_empty refusals=of.refused kinds_before=recorded.kinds_before kinds_after=recorded.kinds_after "
        "nodes=recorded.nodes result=recorded.result buffers=recorded.buffers outputs=recorded.outputs "
        "missed=recorded.missed pairs_without_shared_data=recorded.pairs_without_shared_data"
    )
    of: Fusion
    function: str
    """The compiled function; empty if the log does not name it."""
    ops: int | None
    bytes: Totals | None
    rounds: tuple[RankedRound, ...]
    end: str
    recorded: RecordedNodes | None
    """None: the log of an older ctrace."""
    FIGURES: ClassVar[Basis] = Basis.EMITTED


class FusionDocument(RunDocument, frozen=True, kw_only=True):
    """The graph parts that Inductor's scheduler processed."""

    JSON: ClassVar[str] = "schema verdict target_gpu fusion problems=run.problems"
    target_gpu: TargetDevice | None
    fusion: tuple[FusedPart, ...]


def fusion_document(session: Session, graph: str | None = None, stage: str | None = None) -> FusionDocument:
    """Answer for all graph parts, or for those of a graph or a stage.

    Raises:
        TargetError: there is no such graph or stage.
    """
    functions = {each.id: each.function for each in session.compilations}
    found = tuple(
        FusedPart(
            of=each,
            function=functions.get(each.graph, ""),
            ops=ops_lowered(session, each),
            bytes=totals(each),
            rounds=tuple(rounds(each)),
            end=ending(each),
            recorded=_recorded(each),
        )
        for each in parts(session, graph, stage)
    )
    return FusionDocument(run=session.run, target_gpu=target_device(session), fusion=found)


def _recorded(fusion: Fusion) -> RecordedNodes | None:
    if totals(fusion) is None:
        return None
    pairs = not_fused(fusion)
    return RecordedNodes(
        kinds_before=kinds(fusion.nodes),
        kinds_after=kinds(fusion.result),
        nodes=fusion.nodes,
        result=fusion.result,
        buffers=fusion.buffers,
        outputs=fusion.outputs,
        missed=pairs.missed,
        pairs_without_shared_data=pairs.hidden,
    )
