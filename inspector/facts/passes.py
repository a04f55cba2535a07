"""What Inductor's graph passes did, and whether attention was fused; plain frozen records."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import UNSET, Struct, field
from msgspec.structs import force_setattr

from ctrace.inspector.facts.wire import Integer, OfGraph

_AS_BEFORE: Any = UNSET
_FROM_RECORD: Any = UNSET
"""A field of an attention that is added to what the log has of it."""
_UNNAMED = "pattern_matcher"
"""The name that torch gives to a pattern pass without a name (2.11 to 2.13, _inductor/pattern_matcher.py)."""


class Pattern(Struct, frozen=True, omit_defaults=True):
    """An Inductor pattern that a pass applied."""

    JSON: ClassVar[str] = "name times nodes ops lines|lines"
    name: str
    times: Integer
    nodes: Integer
    """Matched nodes, summed over all matches."""
    ops: tuple[str, ...]
    stacks: tuple[str, ...]
    """The stacks of some of the nodes."""
    lines: tuple[str, ...] = ()
    """`file:line` of the user's code for some of the matches; the log has `stacks` instead."""


class NodeOp(Struct, frozen=True):
    """A node, and what it calls."""

    name: str
    op: str


class RetargetedNode(Struct, frozen=True):
    """A node, and the op that it called before and calls after a pass."""

    name: str
    before: str
    after: str


class PassChanges(Struct, frozen=True):
    """What a pass changed or matched."""

    JSON: ClassVar[str] = (
        "ops created erased retargeted rewired=of.rewired moved=of.moved counters=of.counters patterns=of.patterns"
    )
    of: "Pass"
    ops: Mapping[str, int]
    created: tuple[NodeOp, ...]
    erased: tuple[NodeOp, ...]
    retargeted: tuple[RetargetedNode, ...]


class Pass(OfGraph, frozen=True, omit_defaults=True):
    """One run of a pass over a graph, without the changes that nested passes made."""

    JSON: ClassVar[str] = (
        "graph stage subsystem|null_if_empty name=title within nodes_before=before nodes_after=after "
        "changed=has_changed *changes"
    )
    KIND: ClassVar[str] = "pass"
    name: str
    stage: str
    """The kind of graph: `pre_grad`, `joint`, `inference`, `forward` or `backward`."""
    within: tuple[str, ...]
    """Names of the enclosing passes, outermost first."""
    before: Integer
    """Number of the graph's nodes before the pass."""
    # Most passes change nothing, and their records leave this out.
    after: Integer = _AS_BEFORE
    subsystem: str = ""
    """`pre_grad_passes`, `joint_graph_passes` or `post_grad_passes`; empty if torch does not name it."""
    # Pairs and no Structs: as lists in the log, hundreds of them do without names of fields.
    created: tuple[tuple[str, str], ...] = ()
    """Names and ops of new nodes, up to a few hundred; `created_ops` counts all of them."""
    erased: tuple[tuple[str, str], ...] = ()
    created_ops: Mapping[str, Integer] = field(default_factory=dict)
    erased_ops: Mapping[str, Integer] = field(default_factory=dict)
    retargeted: tuple[tuple[str, str, str], ...] = ()
    """For each node with a new op: its name, the op before, the op after."""
    rewired: Integer = 0
    """The number of remaining nodes whose arguments changed."""
    moved: bool = False
    """Whether the order of the remaining nodes changed."""
    patterns: tuple[Pattern, ...] = ()
    counters: Mapping[str, Integer] = field(default_factory=dict)
    """By how much the pass increased each of torch's Inductor counters."""
    matches: Integer = 0
    """Number of applied patterns that ctrace saw."""
    counted: Integer = 0
    """Number of applied patterns that torch counted (`pattern_matcher_count`)."""

    def __post_init__(self) -> None:
        """Fill in what a pass that changed nothing does not say."""
        if self.after is _AS_BEFORE:
            force_setattr(self, "after", self.before)

    @property
    def title(self) -> str:
        """The name of the pass, or of the enclosing pass if it has none."""
        if self.name == _UNNAMED and self.within:
            return self.within[-1]
        return self.name

    @property
    def has_changed(self) -> bool:
        """Whether the pass changed the graph."""
        return bool(self.created_ops or self.erased_ops or self.retargeted or self.rewired or self.moved)

    @property
    def changes(self) -> PassChanges | None:
        """What the pass changed; None if it changed and matched nothing."""
        if not self.has_changed and not self.patterns:
            return None
        return PassChanges(
            self,
            self.difference(),
            tuple(NodeOp(*each) for each in self.created),
            tuple(NodeOp(*each) for each in self.erased),
            tuple(RetargetedNode(*each) for each in self.retargeted),
        )

    def difference(self) -> dict[str, int]:
        """Return how many nodes of each op the pass added (negative: removed), the largest change first."""
        counted = Counter(self.created_ops)
        # Not `-` between two counters, which drops what is not above zero.
        counted.subtract(self.erased_ops)
        for _, before, after in self.retargeted:
            counted.update({after: 1, before: -1})
        return dict(sorted(((op, number) for op, number in counted.items() if number), key=lambda item: -abs(item[1])))


class WhyNotFused(Struct, frozen=True, omit_defaults=True):
    """The first reason why no pattern of torch matched an attention, or no fused kernel computes it."""

    code: str
    """A key of advice/attention.yaml."""
    stacks: tuple[str, ...]
    """The stacks of the nodes that it is about."""
    pattern: str = ""
    """The pattern that was closest to a match."""
    found: str = ""
    wanted: str = ""
    user: str = ""
    """The op that also uses an inner value."""
    argument: str = ""
    rank: Integer | None = None
    also: tuple[str, ...] = ()
    """Codes of further reasons."""
    lines: tuple[str, ...] = ()
    """`file:line` of the user's code; the log has `stacks` instead."""


class Attention(Struct, frozen=True):
    """One attention in one graph: a call of `scaled_dot_product_attention`, or attention written by hand."""

    call: str | None
    """The name of the call's node in Dynamo's graph; None: written by hand."""
    nodes: tuple[str, ...]
    stacks: tuple[str, ...]
    dtype: str
    device: str
    fused: tuple[str, ...]
    """The fused attention ops that compute it in the graph."""
    counted: Integer
    """By how much it increased torch's counter `fuse_attention`."""
    matched: str | None = None
    """The pattern with which torch replaced it."""
    axis: Integer | None = None
    """The dimension of its softmax, as a negative index; None: not known."""
    certain: bool = True
    """Whether it is certainly attention; False: a softmax between two unbatched matmuls, which may be a router."""
    trial: str = ""
    """Whether the code and torch's replacement return the same for random tensors: `same`; `values` or `shape` if these
    differ; `untried` if the code is too large or uses random numbers; empty: not measured.
    """
    why: WhyNotFused | None = None
    lines: tuple[str, ...] = _FROM_RECORD
    """`file:line` of the user's code; the log has `stacks` instead."""
    graph: str = _FROM_RECORD
    stage: str = _FROM_RECORD
    """`joint` or `inference`."""

    @property
    def is_wrong(self) -> bool:
        """Whether torch's replacement computes something else: every replacement applies softmax to dimension -1."""
        return self.trial in ("values", "shape") or (self.trial == "untried" and self.axis not in (None, -1))


class AttentionFound(OfGraph, frozen=True):
    """The attentions of a graph, without their graph and stage."""

    KIND: ClassVar[str] = "attention"
    stage: str
    places: tuple[Attention, ...]
