"""Events about sizes, from torch and from ctrace's hook: symbols, conditions, and the result for each dimension."""

from typing import ClassVar

from msgspec import Struct, field

from ctrace.inspector.facts.wire import Integer, OfCompilation


class CodeLine(Struct, frozen=True):
    """One frame of a stack; `file` is the number that the log has for the file name."""

    file: int
    line: int
    name: str
    text: str


class SymbolMade(Struct, frozen=True):
    """A size, stride or number of an input got a symbol; `source` is torch's name for it."""

    id: str
    symbol: str
    value: str
    source: str
    stack: tuple[CodeLine, ...] = ()


class UnbackedMade(Struct, frozen=True):
    """A size that depends on data got a symbol at `stack` (outermost first)."""

    id: str
    symbol: str
    stack: tuple[CodeLine, ...] = ()


class SymbolFixed(Struct, frozen=True):
    """Torch found that a symbol can have one value only."""

    id: str
    symbol: str
    sources: tuple[str, ...]
    value: str
    reason: str
    """Torch's name for the step that found this."""
    stack: tuple[CodeLine, ...] = ()
    asked: tuple[str, ...] = ()
    """Torch's functions on the stack, outermost first."""


class ConditionMet(Struct, frozen=True):
    """The graph is valid only while a condition on symbols holds; `expression` is the condition as sympy prints it."""

    id: str
    expression: str
    stack: tuple[CodeLine, ...] = ()
    asked: tuple[str, ...] = ()


SymbolEvent = SymbolMade | UnbackedMade | SymbolFixed | ConditionMet


class Symbol(Struct, frozen=True, kw_only=True):
    """A symbol at the end of a compilation; `low` or `high` is None if there is no such bound."""

    name: str
    low: Integer | None = None
    high: Integer | None = None
    sources: tuple[str, ...]
    """The sizes, strides and numbers that have this symbol, in the order in which they got it."""
    became: str | None = None
    """The number, or the expression of other symbols, that replaces it; None: nothing replaces it."""
    unbacked: bool


class Dim(Struct, frozen=True):
    """One dimension of a tensor, or a number; capture/dynamo/record_shapes.py defines the values."""

    expression: str = field(name="became")
    """What the size became: a number, a symbol, or an expression of symbols."""
    symbol: str | None = None
    """The symbol that torch gave it at first; None: it was a number from the start."""
    size: Integer | None = None
    stride: Integer | None = None
    stride_expression: str = field(name="strided", default="")
    policy: str | None = None
    constraint: str | None = None
    marks: tuple[str, ...] = ()


class TensorSeen(Struct, frozen=True, kw_only=True):
    """A tensor that a compilation reads from outside."""

    source: str
    dtype: str
    role: str
    always_static: str | None = field(name="always", default=None)
    dims: tuple[Dim, ...]


class StaticTensor(Struct, frozen=True, kw_only=True):
    """A tensor of a module that is static only for that reason; a model has hundreds of these."""

    source: str
    dtype: str
    role: str
    always_static: str | None = field(name="always", default=None)
    sizes: tuple[Integer, ...]

    @property
    def whole(self) -> TensorSeen:
        """Return it with all that is known of its dimensions."""
        dims = tuple(Dim(str(size), size=size, policy="static") for size in self.sizes)
        return TensorSeen(
            source=self.source, dtype=self.dtype, role=self.role, always_static=self.always_static, dims=dims
        )


class NumberSeen(Struct, frozen=True, kw_only=True):
    """A Python number from outside that became a symbol."""

    source: str
    type: str
    value: str | None = None
    expression: str = field(name="became")
    symbol: str | None = None
    marks: tuple[str, ...] = ()

    @property
    def dim(self) -> Dim:
        """Return what it became, as for a dimension."""
        return Dim(self.expression, self.symbol, marks=self.marks)


class ShapesSeen(OfCompilation, frozen=True, kw_only=True):
    """All tensors and numbers of one compilation, at the end of tracing."""

    KIND: ClassVar[str] = "shapes"
    assume_static: bool
    """Whether sizes are static until they vary or are marked."""
    automatic: bool
    """Whether a size that varies becomes dynamic."""
    declared: bool = False
    """Whether torch.compile got `dynamic_shapes`: then a size is declared or static, and none becomes dynamic later."""
    symbols: tuple[Symbol, ...]
    variable: tuple[TensorSeen, ...] = field(name="tensors")
    static: tuple[StaticTensor, ...]
    numbers: tuple[NumberSeen, ...]
    conditions: tuple[str, ...]
    """Conditions that became guards."""
    listed_static: tuple[str, ...] = ()
    """The sizes and constants that TORCH_COMPILE_STATIC_SOURCES lists, such as `L['x'].size()[0]` and `L['n']`."""

    @property
    def tensors(self) -> tuple[TensorSeen, ...]:
        """Return all tensors."""
        return (*self.variable, *(each.whole for each in self.static))


ShapeEvent = SymbolEvent
