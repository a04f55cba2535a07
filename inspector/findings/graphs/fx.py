"""Data types for a graph that was parsed from torch's text of an fx.GraphModule."""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct


class FxNodeKind(StrEnum):
    """What a node does, in torch's terms (fx/node.py)."""

    PLACEHOLDER = "placeholder"
    GET_ATTR = "get_attr"
    CALL_FUNCTION = "call_function"
    CALL_METHOD = "call_method"
    CALL_MODULE = "call_module"
    OUTPUT = "output"


CALLS = (FxNodeKind.CALL_FUNCTION, FxNodeKind.CALL_METHOD, FxNodeKind.CALL_MODULE)


class TensorType(Struct, frozen=True):
    """A tensor's type, from a node's annotation."""

    dtype: str
    """Torch's short dtype, such as `f32` or `bf16`."""
    sizes: tuple[str, ...]
    """Numbers, or expressions of symbols."""
    strides: tuple[str, ...] | None = None
    """None if torch did not print them."""
    device: str = ""
    wrapper: str = ""
    """The class of a tensor subclass, such as `DTensor`; empty for a plain tensor."""


class At(Struct, frozen=True):
    """The user's line that created a node."""

    file: str
    line: int
    function: str
    code: str


class FxNode(Struct, frozen=True):
    """One node."""

    name: str
    kind: FxNodeKind
    target: str
    """What the node calls or reads: an op such as `torch.ops.aten.mm.default`, a method, a module or a placeholder."""
    args: str = ""
    """Arguments, as printed."""
    uses: tuple[str, ...] = ()
    """The names of the nodes that it reads, each once."""
    type: TensorType | None = None
    symbol: str = ""
    """The expression of a symbolic number."""
    at: At | None = None
    tag: str = ""
    """The policy of the user's activation checkpoint, such as `MUST_SAVE` or `PREFER_RECOMPUTE`."""
    described: str = ""
    """For an input of AOTAutograd's graphs, torch's description of its origin, such as `PlainAOTInput(idx=0)`."""


class Output(Struct, frozen=True):
    """One output of a graph."""

    text: str
    """The value as printed: a node's name, `None` or a number."""
    described: str = ""
    """Torch's description of it, such as `SavedForBackwardsAOTOutput(idx=0)`."""


class FxGraph(Struct, frozen=True):
    """A graph and the subgraphs that its higher-order ops call."""

    name: str
    nodes: tuple[FxNode, ...] = ()
    outputs: tuple[Output, ...] = ()
    graphs: tuple["FxGraph", ...] = ()
    unread: tuple[str, ...] = ()
    """Lines that could not be parsed although they contain a node or a part of one."""

    def placeholders(self) -> tuple[FxNode, ...]:
        """List the inputs, in order."""
        return tuple(node for node in self.nodes if node.kind is FxNodeKind.PLACEHOLDER)

    def node(self, name: str) -> FxNode | None:
        """Find a node of this graph, without its subgraphs."""
        return next((node for node in self.nodes if node.name == name), None)

    def whole(self) -> Iterator["FxGraph"]:
        """Yield this graph and all its subgraphs."""
        yield self
        for graph in self.graphs:
            yield from graph.whole()

    def everything(self) -> Iterator[FxNode]:
        """Yield the nodes of this graph and all its subgraphs."""
        for graph in self.whole():
            yield from graph.nodes
