"""What Inductor's graph passes did, and what became of attention; plain frozen records."""

from collections.abc import Mapping

from msgspec import Struct, field

_UNNAMED = "pattern_matcher"
"""What torch calls a pass over patterns that has no name of its own (2.11 to 2.13, _inductor/pattern_matcher.py)."""


class Pattern(Struct, frozen=True):
    """A pattern of Inductor's that a pass applied."""

    name: str
    times: int
    nodes: int
    """Nodes that were matched, over all times."""
    ops: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    """`file:line` of the user's code for some of the matches."""


class Pass(Struct, frozen=True):
    """One run of one pass over one graph, without what passes inside of it did."""

    graph: str
    name: str
    stage: str
    """`pre_grad`, `joint`, `inference`, `forward` or `backward`: what kind of graph it ran over."""
    subsystem: str = ""
    """`pre_grad_passes`, `joint_graph_passes` or `post_grad_passes`; empty where torch does not say."""
    within: tuple[str, ...] = ()
    """Names of the passes that it was part of, outermost first."""
    before: int = 0
    """Nodes of the graph."""
    after: int = 0
    created: tuple[tuple[str, str], ...] = ()
    """Name and op of new nodes; a few hundred at most, `created_ops` counts all."""
    erased: tuple[tuple[str, str], ...] = ()
    created_ops: Mapping[str, int] = field(default_factory=dict)
    erased_ops: Mapping[str, int] = field(default_factory=dict)
    retargeted: tuple[tuple[str, str, str], ...] = ()
    """Name of a node that stayed, its op before, its op after."""
    rewired: int = 0
    """Nodes that stayed and got other arguments."""
    moved: bool = False
    """Whether nodes that stayed changed places."""
    patterns: tuple[Pattern, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)
    """How far torch's own counters for Inductor went."""
    matches: int = 0
    """Applied patterns as we saw them."""
    counted: int = 0
    """Applied patterns as torch counted them (`pattern_matcher_count`)."""

    @property
    def title(self) -> str:
        """Its name, or that of the pass around it where it has none."""
        return self.within[-1] if self.name == _UNNAMED and self.within else self.name

    @property
    def has_changed(self) -> bool:
        """Whether the graph is another one."""
        return bool(self.created_ops or self.erased_ops or self.retargeted or self.rewired or self.moved)


class Why(Struct, frozen=True):
    """The first thing that kept an attention from one of torch's patterns or fused kernels."""

    code: str
    """A key of advice/attention.yaml."""
    pattern: str = ""
    """The pattern that came nearest."""
    found: str = ""
    wanted: str = ""
    user: str = ""
    """The op that also uses an inner value."""
    argument: str = ""
    rank: int | None = None
    also: tuple[str, ...] = ()
    """Codes of what is in the way besides."""
    lines: tuple[str, ...] = ()


class Attention(Struct, frozen=True):
    """One attention in one graph: a call of `scaled_dot_product_attention`, or written by hand."""

    graph: str
    stage: str
    """`joint` or `inference`."""
    call: str | None
    """The name of the call's node in Dynamo's graph; None: written by hand."""
    nodes: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    dtype: str = ""
    device: str = ""
    fused: tuple[str, ...] = ()
    """The fused attention ops that are in the graph for it."""
    matched: str | None = None
    """The pattern by which torch replaced it."""
    counted: int = 0
    """How far torch's counter `fuse_attention` went for it."""
    axis: int | None = None
    """The dimension that its softmax runs over, from the end; None: not known."""
    certain: bool = True
    """Whether it is attention; False: a softmax between two products of single matrices, which may be a router."""
    trial: str = ""
    """What came of running the code and what replaced it on random tensors, where torch replaced it: `same`, `values`
    or `shape` (they differ in these), `untried` (too large, or random); empty: not measured."""
    why: Why | None = None

    @property
    def is_wrong(self) -> bool:
        """Whether torch replaced it by something that computes something else; all that it puts there runs over -1."""
        return self.trial in ("values", "shape") or (self.trial == "untried" and self.axis not in (None, -1))
