"""Records about what Dynamo traced: its graphs, their modules and unrolled loops, and the bytecode it wrote."""

from typing import ClassVar

from msgspec import Struct, field

from ctrace.inspector.facts.bytecode_facts import Code, Rewritten
from ctrace.inspector.facts.findings import Frame
from ctrace.inspector.facts.graph_facts import Module, Printed, Unrolled
from ctrace.inspector.facts.wire import Integer, OfCompilation


class GraphMade(OfCompilation, frozen=True):
    """Dynamo handed a graph to the backend."""

    KIND: ClassVar[str] = "graph"
    backend: str
    ops: Integer
    wraps: str | None = None
    """If Dynamo compiles its wrapper around one of torch's modules, the class of that module."""


class GraphTraced(Struct, frozen=True):
    """Torch logged a graph that Dynamo traced, without its backend and the number of its ops."""

    id: str
    printed: Printed | None = None
    """The graph's text."""


class ModuleNodes(Struct, frozen=True):
    """A module of the user, and the nodes of a graph that it computes."""

    path: str
    kind: str = field(name="class")
    nodes: tuple[str, ...]


class ModulesSeen(OfCompilation, frozen=True):
    """Which module of the user computes each node of a graph."""

    KIND: ClassVar[str] = "modules"
    traced: bool
    """Whether the nodes are those that Dynamo traced, and not aten ops."""
    modules: tuple[ModuleNodes, ...]

    @property
    def by_node(self) -> dict[str, Module]:
        """Return the module of each node, by the node's name."""
        return {node: Module(each.path, each.kind) for each in self.modules for node in each.nodes}


class LoopsUnrolled(OfCompilation, frozen=True):
    """The Python loops that Dynamo unrolled into a graph."""

    KIND: ClassVar[str] = "unrolled"
    loops: tuple[Unrolled, ...]
    """Without their graph."""


class BytecodeSeen(OfCompilation, frozen=True):
    """The size of a code object's bytecode before and after Dynamo, and its callers."""

    KIND: ClassVar[str] = "bytecode"
    name: str
    qualname: str
    file: str
    line: Integer
    before: Integer = field(name="bytes_before")
    after: Integer = field(name="bytes_after")
    code: Code | None = None
    """The instructions before Dynamo; None in the log of an older ctrace."""
    new_code: Code | None = None
    callers: tuple[Frame, ...] = ()

    @property
    def codes(self) -> Rewritten | None:
        """Return the instructions before and after, if both are known."""
        if self.code and self.new_code:
            return Rewritten(self.code, self.new_code)
        return None
