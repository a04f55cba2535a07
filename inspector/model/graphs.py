"""Graphs as torch printed them into the log: text, which `graphs/` parses on demand."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field


class GraphStage(StrEnum):
    """Where on its way through torch.compile a graph was printed."""

    DYNAMO = "dynamo"
    """As Dynamo traced it: torch's functions and methods, as the user called them."""
    BEFORE_PRE_GRAD = "before_pre_grad"
    PRE_GRAD = "pre_grad"
    """After Inductor's passes on what Dynamo traced."""
    JOINT = "joint"
    """Forward and backward in one, as aten ops; only where a gradient is asked for."""
    FORWARD = "forward"
    BACKWARD = "backward"
    """What the partitioner made of the joint graph."""
    INFERENCE = "inference"
    """As aten ops, where no gradient is asked for."""
    BEFORE_JOINT = "before_joint"
    AFTER_JOINT = "after_joint"
    """Around Inductor's joint-graph passes; printed for inference only (2.13, _inductor/compile_fx.py:2448)."""
    BEFORE_POST_GRAD = "before_post_grad"
    POST_GRAD = "post_grad"
    """Around Inductor's last passes; a graph with a backward has them for each part."""


class Printed(Struct, frozen=True):
    """One graph at one stage."""

    stage: GraphStage
    text: str
    sizes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Sizes of nodes by name, as torch says them beside the text; for the stage `dynamo` only."""
    attempt: int = 0
    """How many times Dynamo had restarted the compilation; the log does not always show a restart elsewhere."""


class SymbolMeant(Struct, frozen=True):
    """What a symbol in a size stands for."""

    name: str
    """The user's, as `x.size(0)`."""
    value: str
    """Of the call that was compiled for."""


class Graphs(Struct, frozen=True):
    """All that torch printed of one compilation, in its order, of the last attempt."""

    printed: tuple[Printed, ...] = ()
    metadata: str = ""
    """The repr of AOTAutograd's ViewAndMutationMeta; empty: not in the log."""
    symbols: Mapping[str, SymbolMeant] = field(default_factory=dict)


class GraphPrinted(Struct, frozen=True):
    """Torch printed a graph at some stage."""

    id: str
    printed: Printed


class AliasesFound(Struct, frozen=True):
    """AOTAutograd's ViewAndMutationMeta: which inputs are changed, and which outputs share memory with inputs."""

    id: str
    text: str
    attempt: int = 0


GraphEvent = GraphPrinted | AliasesFound
