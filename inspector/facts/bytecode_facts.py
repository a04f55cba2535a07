"""What Dynamo traced: bytecode as plain data, and records of its graphs, their modules and unrolled loops.

Bytecode (`Code`) has everything that `dis` prints, so that a saved run can show it.
"""

from typing import ClassVar

from msgspec import Struct, field

from ctrace.inspector.facts.findings import Frame
from ctrace.inspector.facts.graph_facts import Module, Printed, Unrolled
from ctrace.inspector.facts.wire import Integer, OfCompilation


class Constant(Struct, frozen=True):
    """One constant of a code object."""

    type: str
    """Its class, such as `int` or `code`."""
    text: str
    """The repr of a plain Python value; for any other value, its class in angle brackets. Items of sets are sorted."""
    code: "Code | None" = None
    """The code of a nested function."""


class Instruction(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One instruction; `CACHE` entries are left out, as in `dis`. A list in the log, since there are thousands."""

    offset: Integer
    """Bytes from the start of the code."""
    opname: str
    arg: Integer | None
    """The encoded argument, including `EXTENDED_ARG`; None for an instruction without an argument."""
    text: str
    """The resolved argument as `dis` writes it: a name, a constant's text, `to 24`; empty if there is none."""
    line: Integer | None
    target: Integer | None
    """For a jump, the offset of its target."""


class Handler(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One entry of the exception table; `start`, `end` (exclusive) and `target` are offsets."""

    start: Integer
    end: Integer
    target: Integer
    depth: Integer
    lasti: bool


class Code(Struct, frozen=True):
    """A code object. `python` is the Python version that it is for, such as `3.11`."""

    python: str
    name: str
    qualname: str
    file: str
    line: Integer
    flags: Integer
    arguments: Integer
    """The number of positional arguments, including positional-only ones."""
    positional_only: Integer
    keyword_only: Integer
    variables: tuple[str, ...]
    """Local variables, arguments first (`co_varnames`)."""
    cells: tuple[str, ...]
    free: tuple[str, ...]
    names: tuple[str, ...]
    constants: tuple[Constant, ...]
    instructions: tuple[Instruction, ...]
    handlers: tuple[Handler, ...]


class Rewritten(Struct, frozen=True):
    """A function's code before and after Dynamo rewrote it."""

    before: Code
    after: Code


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
    # The log's name is a keyword of Python.
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
