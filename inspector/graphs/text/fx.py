"""A graph as data: what torch's text of an fx.GraphModule says, node by node."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a node does; torch's own words (fx/node.py)."""

    PLACEHOLDER = "placeholder"
    GET_ATTR = "get_attr"
    CALL_FUNCTION = "call_function"
    CALL_METHOD = "call_method"
    CALL_MODULE = "call_module"
    OUTPUT = "output"


CALLS = (Kind.CALL_FUNCTION, Kind.CALL_METHOD, Kind.CALL_MODULE)


@dataclass(frozen=True, slots=True)
class TensorType:
    """What a node's annotation says of a tensor."""

    dtype: str
    """Torch's short word, as `f32` or `bf16`."""
    sizes: tuple[str, ...]
    """Numbers, or expressions of symbols."""
    strides: tuple[str, ...] | None = None
    """None: torch did not print them."""
    device: str = ""
    wrapper: str = ""
    """The class, where it is a subclass of Tensor, as `DTensor`."""


@dataclass(frozen=True, slots=True)
class At:
    """The user's line that made a node."""

    file: str
    line: int
    function: str
    code: str


@dataclass(frozen=True, slots=True)
class FxNode:
    """One node."""

    name: str
    kind: Kind
    target: str
    """What is called or read: `torch.ops.aten.mm.default`, a method's or a module's name, a placeholder's own name."""
    args: str = ""
    """Arguments, as printed."""
    uses: tuple[str, ...] = ()
    """Nodes that it reads, each once."""
    type: TensorType | None = None
    symbol: str = ""
    """For a symbolic number, its expression."""
    at: At | None = None
    tag: str = ""
    """What the activation checkpoint of the user asks for, as `MUST_SAVE` or `PREFER_RECOMPUTE`."""
    described: str = ""
    """For an input of AOTAutograd's graphs, torch's word for where it comes from, as `PlainAOTInput(idx=0)`."""


@dataclass(frozen=True, slots=True)
class Output:
    """One thing that a graph returns."""

    text: str
    """As printed: a node's name, `None`, a number."""
    described: str = ""
    """Torch's word for what it is, as `SavedForBackwardsAOTOutput(idx=0)`."""


@dataclass(frozen=True, slots=True)
class FxGraph:
    """A graph, and those that its higher-order ops call."""

    name: str
    nodes: tuple[FxNode, ...] = ()
    outputs: tuple[Output, ...] = ()
    graphs: tuple["FxGraph", ...] = ()
    unread: tuple[str, ...] = ()
    """Lines that hold a node, or part of one, and could not be read."""

    def placeholders(self) -> tuple[FxNode, ...]:
        """List the inputs, in order."""
        return tuple(node for node in self.nodes if node.kind is Kind.PLACEHOLDER)

    def node(self, name: str) -> FxNode | None:
        """Find a node of this graph, not of those that it calls."""
        return next((node for node in self.nodes if node.name == name), None)

    def whole(self) -> Iterator["FxGraph"]:
        """Go through this graph and all below it."""
        yield self
        for graph in self.graphs:
            yield from graph.whole()

    def everything(self) -> Iterator[FxNode]:
        """Go through the nodes of this graph and of all below it."""
        for graph in self.whole():
            yield from graph.nodes
