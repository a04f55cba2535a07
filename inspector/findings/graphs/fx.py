"""A graph that was parsed from torch's text of an fx.GraphModule: its nodes, their ops and the memory of tensors.

Ops are named and classified by what a node calls. Bytes follow from the printed type of a tensor, whose integers an
untrusted log may hold in any size.
"""

import ast
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.facts.graph_facts import Module


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


class NodeValue(Struct, frozen=True):
    """What a node computes, as it is printed."""

    JSON: ClassVar[str] = (
        "dtype=type.dtype sizes=type.sizes strides=type.strides device|null_if_empty class=wrapper|null_if_empty "
        "symbol|null_if_empty"
    )
    type: TensorType | None
    symbol: str
    """The expression of a symbolic number."""
    device: str = ""
    wrapper: str = ""
    """The class of a tensor subclass, such as `DTensor`; empty for a plain tensor."""


class FxNode(Struct, frozen=True):
    """One node."""

    JSON: ClassVar[str] = (
        "name kind target op args uses *value file=at.file|relative line=at.line source=at.code "
        "is=described|null_if_empty recompute=tag|null_if_empty module=module.path module_class=module.kind"
    )
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
    module: Module | None = None
    """The user's module that computes it, if a view looks it up (`graph_view.py:with_modules`)."""

    @property
    def op(self) -> str:
        """The name of what it calls."""
        return op_name(self)

    @property
    def value(self) -> NodeValue:
        """What it computes."""
        if self.type is None:
            return NodeValue(None, self.symbol)
        return NodeValue(self.type, self.symbol, self.type.device, self.type.wrapper)


class Output(Struct, frozen=True):
    """One output of a graph."""

    JSON: ClassVar[str] = "value=text is=described|null_if_empty"
    text: str
    """The value as printed: a node's name, `None` or a number."""
    described: str = ""
    """Torch's description of it, such as `SavedForBackwardsAOTOutput(idx=0)`."""


class FxGraph(Struct, frozen=True):
    """A graph and the subgraphs that its higher-order ops call."""

    JSON: ClassVar[str] = "name nodes outputs graphs unread"
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


_GETITEM = "operator.getitem"
_VIEWS = frozenset(
    (
        "view", "permute", "expand", "transpose", "t", "slice", "select", "squeeze", "unsqueeze", "alias", "detach",
        "as_strided", "diagonal", "unfold", "split", "split_with_sizes", "unbind", "view_as_real", "view_as_complex",
        "real", "imag", "narrow", "movedim", "_unsafe_view", "lift_fresh", "split_dim", "view_of", "broadcast_in_dim",
    )
)  # fmt: skip
"""Aten and prims ops whose result shares the memory of their first argument (aten/native/native_functions.yaml)."""
# Parts of names, because each kind has several ops: `rand_like`, `randint`, `native_dropout`.
_RANDOM = ("rand", "bernoulli", "dropout", "normal", "uniform", "multinomial", "poisson", "exponential", "cauchy")
_ATEN = ("aten.", "prims.")


def op_name(node: FxNode) -> str:
    """Return the name of what a node calls: `aten.mm`, `prims.fma`, `cond`, `linear`, or the name of a method."""
    if node.kind is FxNodeKind.CALL_MODULE:
        return node.target
    return _name(node.target)


@lru_cache(maxsize=4096)
def _name(target: str) -> str:
    parts = target.split(".")
    # A function of torch has its last name alone, as a user writes it: `linear` for `torch._C._nn.linear`.
    if parts[:2] == ["torch", "ops"] and len(parts) > 3:
        if parts[2] == "higher_order":
            return parts[3]
        return f"{parts[2]}.{parts[3]}"
    return parts[-1]


def overload(node: FxNode) -> str:
    """Return the overload of an op of torch.ops, such as `Tensor`; empty for the default and for other calls."""
    parts = node.target.split(".")
    is_op = parts[:2] == ["torch", "ops"] and len(parts) > 4
    if is_op and parts[4] != "default":
        return parts[4]
    return ""


def is_aten(node: FxNode) -> bool:
    """Whether a node calls an op of torch.ops, not a Python function or method."""
    return op_name(node).startswith(_ATEN)


def is_view(node: FxNode) -> bool:
    """Whether an aten op returns a view of its first argument."""
    name = op_name(node)
    return name.startswith(_ATEN) and name.partition(".")[2] in _VIEWS


def is_random(node: FxNode) -> bool:
    """Whether an op returns a different result on each call."""
    name = op_name(node)
    return any(part in name for part in _RANDOM)


def operations(graph: FxGraph) -> tuple[FxNode, ...]:
    """List the nodes of a graph and its subgraphs that compute tensors, without `getitem` and arithmetic on sizes."""
    return tuple(node for each in graph.whole() for node in _operations(each))


def _operations(graph: FxGraph) -> Iterable[FxNode]:
    # Torch prints no type for a tuple. To pick from one is no operation; `x[0]` of a tensor is.
    several = {node.name for node in graph.nodes if node.kind in CALLS and node.type is None and not node.symbol}
    for node in graph.nodes:
        is_pick = node.target == _GETITEM and not several.isdisjoint(node.uses[:1])
        if node.kind in CALLS and not node.symbol and not is_pick:
            yield node


def counted(nodes: Iterable[FxNode]) -> tuple[tuple[str, int], ...]:
    """Count operations by name, most first."""
    return tuple(Counter(map(op_name, nodes)).most_common())


def memory_root(nodes: Mapping[str, FxNode], name: str) -> str:
    """Follow views back to the node that owns the memory; `nodes` has a graph's nodes by name."""
    for _ in nodes:  # at most so many steps: the text of a damaged log may have a cycle
        node = nodes.get(name)
        if node is None or not node.uses:
            break
        first = nodes.get(node.uses[0])
        # `split` and `unbind` return several views, each of which a `getitem` picks.
        is_part = node.target == _GETITEM and first is not None and is_view(first)
        if not is_part and not is_view(node):
            break
        name = node.uses[0]
    return name


_BITS = re.compile(r"[A-Za-z]+(\d+)(?:x(\d+))?")
_SYMBOL = re.compile(r"\b[suf]\d+\b|\bzuf\d+\b")
_LONGEST = 300
"""Maximum length of a size expression, in characters."""
_DIGITS = 18
"""The most digits that a size may have; a longer number is damaged text."""
_MOST_POWER, _MOST_BASE = 8, 10**6
"""The text comes from a log: `9**9**9` would keep Python computing. The largest power has 48 digits."""


class Memory(Struct, frozen=True):
    """How many bytes a tensor's storage has."""

    bytes: int | None
    """The bytes for the sizes in the call that triggered the compilation; None if a size or the dtype is not known."""
    symbols: tuple[str, ...] = ()
    """The symbols that the bytes depend on; empty if they are constant."""


def memory_of(type_: TensorType, values: Mapping[str, str]) -> Memory:
    """Return the bytes of a tensor's storage up to its last element; `values` has the values of symbols."""
    item = item_bytes(type_.dtype)
    sizes = [number(size, values) for size in type_.sizes]
    printed = type_.strides
    strides = None if printed is None else [number(stride, values) for stride in printed]
    symbols = tuple(dict.fromkeys(name for size in type_.sizes for name in symbols_in(size)))
    elements = _elements(sizes, strides)
    return Memory(None if item is None or elements is None else math.ceil(elements * item), symbols)


def symbols_in(size: str) -> tuple[str, ...]:
    """List the symbols of a size, each once."""
    return tuple(dict.fromkeys(_SYMBOL.findall(size)))


def _elements(sizes: list[int | None], strides: list[int | None] | None) -> int | None:
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes) or any(size < 0 for size in known):
        return None
    # The formula for strides would count one element.
    if 0 in known:
        return 0
    steps = [stride for stride in strides or () if stride is not None]
    if len(steps) < len(known):
        if strides is None:
            return math.prod(known)
        return None
    return 1 + sum((size - 1) * step for size, step in zip(known, steps, strict=False))


def item_bytes(dtype: str) -> float | None:
    """Return the bytes of one element by torch's short dtype: 4 for `f32`, 1 for `b8` (bool) and `f8e4m3fn`."""
    # Two numbers of 4 bits share a byte in `f4e2m1fnx2`.
    if dtype.endswith("x2"):
        return 1
    match = _BITS.match(dtype)
    if match is None:
        return None
    # Packed bits have two numbers: `b2x4` is four times two bits.
    return int(match[1][:4]) * int((match[2] or "1")[:4]) / 8


def number(expression: str, values: Mapping[str, str]) -> int | None:
    """Evaluate a size such as `s77*64` or `(s77//2)`; return None for an unknown symbol, or if the text is no size."""
    # Most sizes are plain numbers, which need no parser.
    if expression.isdecimal():
        return _whole(expression)
    try:
        tree = ast.parse(expression[:_LONGEST], mode="eval") if len(expression) <= _LONGEST else None
        if tree is None:
            return None
        return _worked_out(tree.body, values)
    except (SyntaxError, ValueError, RecursionError, MemoryError, ZeroDivisionError, OverflowError):
        return None


def _whole(text: str) -> int | None:
    if text.isdecimal() and len(text) <= _DIGITS:
        return int(text)
    return None


def _worked_out(node: ast.expr, values: Mapping[str, str]) -> int | None:
    match node:
        case ast.Constant(value=int() as value):
            return value
        case ast.Name(id=name):
            known = values.get(name, "")
            return _whole(known)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _worked_out(operand, values)
            return None if inner is None else -inner
        case ast.BinOp(left=left, op=op, right=right):
            return calculated(_worked_out(left, values), op, _worked_out(right, values))
        case ast.Call(func=ast.Name(id="Max" | "Min" as name), args=args) if args:
            found = [number for each in args if (number := _worked_out(each, values)) is not None]
            if len(found) == len(args):
                if name == "Max":
                    return max(found)
                return min(found)
    return None


def calculated(left: int | None, operator: ast.operator, right: int | None) -> int | None:
    """Return the value of an operation, or None if an operand is unknown or the value is undefined or too large."""
    if left is None or right is None:
        return None
    match operator:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.FloorDiv():
            return left // right if right else None
        case ast.Mod():
            return left % right if right else None
        case ast.Pow() if 0 <= right <= _MOST_POWER and abs(left) < _MOST_BASE:
            return int(left**right)
    return None
