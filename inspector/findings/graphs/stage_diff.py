"""Compare a graph at two stages: node by node if nodes keep their names, line by line if functions became aten ops."""

import re
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.errors import SelectionError
from ctrace.inspector.facts.graph_facts import GraphStage
from ctrace.inspector.findings.graphs.fx import (
    CALLS,
    At,
    FxGraph,
    FxNode,
    FxNodeKind,
    is_aten,
    is_random,
    is_view,
    op_name,
)
from ctrace.inspector.findings.graphs.graph_view import CompiledGraph, Staged

_AROUND = {
    "pre_grad": ("before_pre_grad", "pre_grad"),
    "joint": ("before_joint", "after_joint"),
    "post_grad": ("before_post_grad", "post_grad"),
    "post_grad_backward": ("before_post_grad_backward", "post_grad_backward"),
}
"""For the name of a stage with passes, the stages before and after these passes."""
_DOTS = ".."
_OPERATORS = {
    "truediv": "div", "itruediv": "div", "iadd": "add", "isub": "sub", "imul": "mul", "ipow": "pow",
    "imatmul": "matmul", "and_": "bitwise_and", "or_": "bitwise_or", "xor": "bitwise_xor", "mod": "remainder",
    "floordiv": "floor_divide",
}  # fmt: skip
"""Python's operators and the equivalent aten ops."""
_PICK = "operator.getitem"
_WORD = re.compile(r"[^\W\d]\w*")


class WhyGone(StrEnum):
    """Why a node is missing in the later stage."""

    MOVED = "moved"
    """The partitioner moved it to the backward."""
    DUPLICATE = "duplicate"
    """Another node computes the same value."""
    VIEW = "view"
    UNUSED = "unused"
    """Nothing read it."""
    OTHER = "other"


class GoneNode(Struct, frozen=True):
    """A node that the later stage does not have."""

    JSON: ClassVar[str] = "name=node.name target=node.target why same_as|null_if_empty"
    node: FxNode
    why: WhyGone
    same_as: str = ""
    """For a duplicate, the remaining node with the same value."""


class NewNode(Struct, frozen=True):
    """A node that the earlier stage does not have."""

    JSON: ClassVar[str] = "name=node.name target=node.target args=node.args"
    node: FxNode


class OtherOp(Struct, frozen=True):
    """A node that kept its name but calls another op."""

    JSON: ClassVar[str] = "name=now.name was=was.target now=now.target"
    was: FxNode
    now: FxNode


class OtherArgs(OtherOp, frozen=True):
    """A node that kept its name and op but reads other arguments."""

    JSON: ClassVar[str] = "name=now.name was=was.args now=now.args"


class LineChange(Struct, frozen=True):
    """How the nodes of one user line changed; `at` is None if torch does not know the line."""

    JSON: ClassVar[str] = (
        "file=at.file|relative line=at.line source=at.code removed=gone added=new other_op other_args same "
        "constant=is_constant"
    )
    at: At | None
    gone: tuple[GoneNode, ...] = ()
    new: tuple[NewNode, ...] = ()
    other_op: tuple[OtherOp, ...] = ()
    other_args: tuple[OtherArgs, ...] = ()
    same: int = 0
    """How many nodes have not changed."""

    @property
    def is_change(self) -> bool:
        """Whether more than arguments changed."""
        return bool(self.gone or self.new or self.other_op)

    @property
    def is_constant(self) -> bool:
        """Whether the new nodes have no inputs: torch folded a constant."""
        return bool(self.gone and self.new) and not any(each.node.uses for each in self.new)


class LineLowered(Struct, frozen=True):
    """The ops that one line had before and has after, with their counts; `same` has the ops that are on both sides."""

    JSON: ClassVar[str] = (
        "file=at.file|relative line=at.line source=at.code before|counts after|counts same|counts nodes|names"
    )
    at: At | None
    before: tuple[tuple[str, int], ...]
    after: tuple[tuple[str, int], ...]
    same: tuple[tuple[str, int], ...]
    nodes: tuple[FxNode, ...]
    """The line's nodes at the later stage."""


class StageDiff(Struct, frozen=True):
    """One graph at two stages."""

    before: Staged
    after: Staged
    lowered: tuple[LineLowered, ...] = ()
    """The changes of each line if functions and methods became aten ops; then `changes` is empty."""
    changes: tuple[LineChange, ...] = ()

    @property
    def is_lowering(self) -> bool:
        """Whether only ops and lines are comparable, because functions and methods became aten ops."""
        return self.before.is_traced != self.after.is_traced


def two_stages(each: CompiledGraph, stages: str) -> tuple[Staged, Staged]:
    """Parse `before..after`, or the name of a stage with passes, to two stages.

    Raises:
        TargetError: there is no such stage.
    """
    check_form(stages)
    before, dots, after = stages.replace("-", "_").partition(_DOTS)
    if not dots:
        before, after = _around(each, before)
    return each.stage(before), each.stage(after)


def check_form(stages: str) -> None:
    """Refuse a text that is neither `before..after` nor the name of a stage with passes.

    Raises:
        TargetError: the text is neither.
    """
    if _DOTS not in stages and stages.replace("-", "_") not in _AROUND:
        known = ", ".join(_AROUND)
        raise SelectionError("diff", f"{stages}: a diff needs two stages", f"write before..after, or one of: {known}")


def _around(each: CompiledGraph, stage: str) -> tuple[str, str]:
    """Return the stages before and after a stage's passes. Right after the joint passes, torch partitions the graph."""
    before, after = _AROUND[stage]
    is_partitioned = before not in each.labels() and {GraphStage.JOINT, GraphStage.FORWARD} <= set(each.labels())
    if stage == GraphStage.JOINT and is_partitioned:
        return (GraphStage.JOINT, GraphStage.FORWARD)
    return (before, after)


def stage_diff(each: CompiledGraph, before: Staged, after: Staged) -> StageDiff:
    """Compare two stages.

    Raises:
        TargetError: one of them cannot be read.
    """
    one, other = before.graph, after.graph
    if one is None or other is None:
        label = before.label if one is None else after.label
        raise SelectionError(
            "diff", f"the stage {label} cannot be read", f"ctrace graphs --stage {label} shows its text"
        )
    if before.is_traced != after.is_traced:
        return StageDiff(before, after, lowered=_lowered(one, other))
    # Only the partitioner moves nodes to the backward, and it runs between the joint graph and the forward.
    backward = each.first(GraphStage.BACKWARD) if before.stage is GraphStage.JOINT else None
    is_forward = after.stage in (GraphStage.FORWARD, GraphStage.BEFORE_POST_GRAD, GraphStage.POST_GRAD)
    return StageDiff(before, after, changes=_changes(one, other, backward if is_forward else None))


Key = tuple[str, int] | None


def _key(node: FxNode) -> Key:
    if node.at:
        return (node.at.file, node.at.line)
    return None


def _working(graph: FxGraph) -> dict[str, FxNode]:
    """Index by name the nodes that compute or hold a value; in a subgraph, names start with the subgraph's name."""
    found: dict[str, FxNode] = {}
    for number, each in enumerate(graph.whole()):
        # With a number, as two subgraphs may have one name and names of nodes repeat in each.
        prefix = f"{each.name}{number}." if number else ""
        found |= {prefix + node.name: node for node in each.nodes if node.kind in (*CALLS, FxNodeKind.GET_ATTR)}
    return found


def _lowered(before: FxGraph, after: FxGraph) -> tuple[LineLowered, ...]:
    groups: dict[Key, tuple[list[FxNode], list[FxNode]]] = {}
    for side, graph in enumerate((before, after)):
        for node in _working(graph).values():
            # Work on sizes and picks from tuples have no counterpart on the other side.
            if node.kind in CALLS and node.target != _PICK and not node.symbol:
                groups.setdefault(_key(node), ([], []))[side].append(node)
    return tuple(_line_lowered(olds, news) for olds, news in groups.values())


def _line_lowered(olds: list[FxNode], news: list[FxNode]) -> LineLowered:
    was, now = Counter(map(_short, olds)), Counter(map(_short, news))
    # Counters keep how often: of two `add` before and three after, two are the same.
    same = was & now
    at = (olds or news)[0].at
    return LineLowered(at, _ranked(was - same), _ranked(now - same), _ranked(same), tuple(news))


def _short(node: FxNode) -> str:
    """Return one name for `torch.relu`, `x.relu()` and `aten.relu`, so that they compare equal."""
    name = op_name(node).removeprefix("aten.").removeprefix("prims.")
    if node.target.startswith("operator."):
        return _OPERATORS.get(name, name)
    if node.kind is FxNodeKind.CALL_METHOD:
        # AOTAutograd functionalizes, so `x.relu_()` becomes `aten.relu`.
        return name.removesuffix("_")
    return name


def _ranked(counts: Counter[str]) -> tuple[tuple[str, int], ...]:
    return tuple(counts.items())


def _changes(before: FxGraph, after: FxGraph, backward: FxGraph | None) -> tuple[LineChange, ...]:
    olds, news = _working(before), _working(after)
    moved = {(node.name, node.target) for node in backward.nodes} if backward else set()
    gone = _gone({name: node for name, node in olds.items() if name not in news}, olds, before, moved)
    groups: dict[Key, _Group] = {}
    for name, node in olds.items():
        group = groups.setdefault(_key(node), _Group(node.at))
        if name in gone:
            group.gone.append(gone[name])
        else:
            group.compare(node, news[name])
    for name, node in news.items():
        if name not in olds:
            groups.setdefault(_key(node), _Group(node.at)).new.append(NewNode(node))
    return tuple(group.change() for group in groups.values())


class _Group:
    """Collects the nodes of one line."""

    def __init__(self, at: At | None) -> None:
        self._at = at
        self.gone: list[GoneNode] = []
        self.new: list[NewNode] = []
        self._other_op: list[OtherOp] = []
        self._other_args: list[OtherArgs] = []
        self._same = 0

    def compare(self, old: FxNode, new: FxNode) -> None:
        """Classify what changed at a node that kept its name."""
        if old.target != new.target:
            self._other_op.append(OtherOp(old, new))
        elif old.args != new.args:
            self._other_args.append(OtherArgs(old, new))
        else:
            self._same += 1

    def change(self) -> LineChange:
        other_op, other_args = tuple(self._other_op), tuple(self._other_args)
        return LineChange(self._at, tuple(self.gone), tuple(self.new), other_op, other_args, self._same)


def _gone(
    nodes: dict[str, FxNode], olds: dict[str, FxNode], before: FxGraph, moved: set[tuple[str, str]]
) -> dict[str, GoneNode]:
    twins = _twins(olds)
    read = {name for node in before.everything() for name in node.uses}
    return {name: _why(name, node, nodes, twins, read, moved) for name, node in nodes.items()}


def _why(
    name: str,
    node: FxNode,
    gone: dict[str, FxNode],
    twins: dict[str, str],
    read: set[str],
    moved: set[tuple[str, str]],
) -> GoneNode:
    # From the most certain reason to the least; a duplicate whose twin is gone as well has the twin's reason.
    twin = twins.get(name, "")
    if twin and twin not in gone:
        return GoneNode(node, WhyGone.DUPLICATE, twin)
    if (node.name, node.target) in moved:
        return GoneNode(node, WhyGone.MOVED)
    if is_view(node):
        return GoneNode(node, WhyGone.VIEW)
    return GoneNode(node, WhyGone.OTHER if node.name in read else WhyGone.UNUSED)


def _twins(nodes: dict[str, FxNode]) -> dict[str, str]:
    """Map each node's name to the name of an earlier node with the same op and arguments."""
    first: dict[tuple[str, str, str], str] = {}
    twins: dict[str, str] = {}
    for name, node in nodes.items():
        if not is_aten(node) or is_random(node):
            continue  # a function in the user's code may change its arguments in place
        prefix = name[: len(name) - len(node.name)]
        # With the twins' names, a chain of equal nodes compares equal after its first one.
        args = _WORD.sub(lambda match, prefix=prefix: twins.get(prefix + match[0], match[0]), node.args)  # type: ignore[misc]
        twin = first.setdefault((prefix, node.target, args), name)
        if twin != name:
            twins[name] = twin
    return twins


def totals(changes: Iterable[LineChange]) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Count the ops that are gone, the new ops, and the replaced ops, such as `view → reshape`."""
    gone: Counter[str] = Counter()
    new: Counter[str] = Counter()
    other: Counter[str] = Counter()
    for change in changes:
        gone.update(op_name(each.node) for each in change.gone)
        new.update(op_name(each.node) for each in change.new)
        other.update(f"{op_name(each.was)} → {op_name(each.now)}" for each in change.other_op)
    return gone, new, other
