"""Graphs as the text that torch printed into the log; `graphs/` parses the text on demand."""

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct, field

from ctrace.inspector.facts.stored import HasText, Text, text_of
from ctrace.inspector.facts.wire import COMPILATION, Integer


class GraphStage(StrEnum):
    """The stage of torch.compile at which torch printed a graph."""

    DYNAMO = "dynamo"
    """As Dynamo traced it: torch functions and methods, as the user called them."""
    BEFORE_PRE_GRAD = "before_pre_grad"
    PRE_GRAD = "pre_grad"
    """After Inductor's passes on what Dynamo traced."""
    JOINT = "joint"
    """Forward and backward in one graph of aten ops, if the graph needs gradients."""
    FORWARD = "forward"
    BACKWARD = "backward"
    """The two graphs into which the partitioner splits the joint graph."""
    INFERENCE = "inference"
    """One graph of aten ops, if the graph needs no gradients."""
    BEFORE_JOINT = "before_joint"
    AFTER_JOINT = "after_joint"
    """Before and after the joint-graph passes, for inference only (2.13, _inductor/compile_fx.py:2448)."""
    BEFORE_POST_GRAD = "before_post_grad"
    POST_GRAD = "post_grad"
    """Before and after Inductor's post-grad passes; if there is a backward, forward and backward each have both."""


class Unrolled(Struct, frozen=True):
    """A Python loop whose passes Dynamo wrote into one graph, one after another."""

    JSON: ClassVar[str] = "file|relative line function times ops graph"
    file: str
    line: Integer
    """The line of the loop's head."""
    function: str
    times: Integer
    """How often the loop's body ran while Dynamo traced."""
    ops: Integer
    """The ops of the graph that the body made, as Dynamo traced them, with those of the functions that it called."""
    # Not in the log, whose record has it once for all loops; the collected log adds it to each.
    graph: str = COMPILATION


class Printed(HasText, Struct, frozen=True):
    """One graph at one stage, as text."""

    stage: GraphStage
    body: Text
    """The graph; a large log keeps it until it is needed."""
    sizes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Sizes of nodes by name, which torch logs beside the text; only for the stage `dynamo`."""
    attempt: int = 0
    """How many times Dynamo had restarted the compilation by then; the log may show a restart nowhere else."""


class SymbolMeant(Struct, frozen=True):
    """What a symbol in a size stands for."""

    name: str
    """The user's name for it, such as `x.size(0)`."""
    value: str
    """Its value in the call for which torch compiled."""


class Module(Struct, frozen=True):
    """A module of the user."""

    path: str
    """Such as `layers.0.norm1`; empty for the compiled module itself."""
    kind: str
    """The name of its class."""


class Graphs(Struct, frozen=True):
    """All graphs that torch printed for the last attempt of one compilation, in order."""

    printed: tuple[Printed, ...] = ()
    aliases: Text = ""
    """The repr of AOTAutograd's ViewAndMutationMeta; empty: not in the log."""
    symbols: Mapping[str, SymbolMeant] = field(default_factory=dict)
    traced_modules: Mapping[str, Module] = field(default_factory=dict)
    """The module of each node that Dynamo traced, by the node's name; empty: not recorded, or no node has one."""
    aten_modules: Mapping[str, Module] = field(default_factory=dict)
    """The module of each node at the stages of aten ops; passes add nodes that have none."""

    @property
    def metadata(self) -> str:
        """Return the repr of AOTAutograd's ViewAndMutationMeta; empty: not in the log.

        Raises:
            RunError: it is in a log that changed since it was read.
        """
        return text_of(self.aliases)


class GraphPrinted(Struct, frozen=True):
    """Torch printed a graph at some stage."""

    id: str
    printed: Printed


class AliasesFound(Struct, frozen=True):
    """AOTAutograd logged its ViewAndMutationMeta: which inputs are mutated, and which outputs alias inputs."""

    id: str
    text: Text
    attempt: int = 0


GraphEvent = GraphPrinted | AliasesFound
