"""The sizes in a Session, and the events about them, from torch and from ctrace's hook: symbols, conditions, and the
result for each dimension.
"""

from enum import StrEnum
from typing import ClassVar

from msgspec import Struct, field

from ctrace.inspector.facts.wire import Integer, OfCompilation


class DimKind(StrEnum):
    """How a compilation treats a dimension."""

    STATIC = "static"
    """A number from the start."""
    SYMBOLIC = "symbolic"
    """Free within a range."""
    SPECIALIZED = "specialised"
    """Free at first, then fixed to one value by the compiled code."""
    DUCK = "duck"
    """Free, but assumed equal to another dimension because both had the same size in the first call."""
    ZERO_ONE = "zero_one"
    """0 or 1, on which torch always specializes."""
    UNBACKED = "unbacked"
    """Free, without an example value: torch must not read its value."""


class DimPolicy(StrEnum):
    """Why torch started with a number or a symbol for the dimension."""

    NOT_VARIED = "not_varied"
    """Static until it varies, which is torch's default."""
    PARAMETER = "parameter"
    """Parameters are static (force_parameter_static_shapes)."""
    MODULE = "nn_module_property"
    """Tensors of torch's own modules are static (force_nn_module_property_static_shapes)."""
    ALL_STATIC = "all_static"
    """torch.compile(dynamic=False)."""
    ALL_DYNAMIC = "all_dynamic"
    """torch.compile(dynamic=True)."""
    AUTOMATIC = "automatic"
    """It varied, so torch made it dynamic automatically."""
    MARKED_STATIC = "marked_static"
    MARKED_DYNAMIC = "marked_dynamic"
    """mark_dynamic: the user requires it, and torch raises if the size cannot be dynamic."""
    MAYBE_DYNAMIC = "maybe_dynamic"
    """maybe_mark_dynamic: dynamic if possible."""
    MARKED_UNBACKED = "marked_unbacked"
    DECLARED = "declared"
    """torch.compile(dynamic_shapes=...) declares it dynamic, without guards."""
    DECLARED_STATIC = "declared_static"
    """torch.compile(dynamic_shapes=...) declares a number for it, or omits it."""
    LISTED = "listed"
    """TORCH_COMPILE_DYNAMIC_SOURCES."""
    LISTED_STATIC = "listed_static"
    """TORCH_COMPILE_STATIC_SOURCES, which wins over dynamic=True and TORCH_COMPILE_DYNAMIC_SOURCES."""
    UNKNOWN = "unknown"
    """The log does not say."""


class ConditionKind(StrEnum):
    """Why torch needs a condition on a size."""

    NUMBER = "number"
    """The user's code uses the size as a plain number, such as in `range(x.size(0))`."""
    CONDITION = "condition"
    """The user's code branches on it."""
    CHECK = "check"
    """An operation, or a torch._check, is only valid if the condition holds."""
    OPERATION = "operation"
    """An operation takes another path if the condition does not hold."""


class SizeCondition(Struct, frozen=True):
    """A condition under which the graph is valid, and the user's line that needs it."""

    JSON: ClassVar[str] = "condition=text value kind file|relative line source why"
    text: str
    """In the user's names, such as `x.size(0) > 3`."""
    why: str
    kind: ConditionKind
    file: str | None = None
    line: int | None = None
    source: str = ""
    """The user's line; for a condition that torch could not decide, only the condition's code."""
    value: str | None = None
    """The only value that satisfies the condition; None: several values do."""


class Dimension(Struct, frozen=True):
    """One dimension of a tensor, or (without an index) a Python number."""

    index: int | None
    size: str
    """The size in the example; empty: not known."""
    kind: DimKind
    policy: DimPolicy
    stride: int | None = None
    became: str = ""
    """How it follows from other sizes, in the user's names; empty for a free size or a number."""
    low: int | None = None
    high: int | None = None
    fixed: SizeCondition | None = None
    """For a specialized dimension, the condition that fixed it; None: not in the log."""
    conditions: tuple[SizeCondition, ...] = ()
    same_as: tuple[str, ...] = ()
    """For a dimension of kind `duck`, the dimensions that it is assumed to equal, in the user's names."""
    ranged: bool = False
    """Whether the user gave a range with mark_dynamic."""


class ShapedTensor(Struct, frozen=True):
    """A tensor, or a Python number, that a compilation reads from outside."""

    source: str
    """Torch's name."""
    name: str
    """The user's name."""
    dtype: str
    role: str
    """`input`, `parameter`, `buffer` or `number`."""
    dims: tuple[Dimension, ...]


class Unbacked(Struct, frozen=True):
    """A size that depends on data, and the user's line that creates it."""

    JSON: ClassVar[str] = "symbol low high file|relative line source"
    symbol: str
    low: int | None = None
    high: int | None = None
    file: str | None = None
    line: int | None = None
    source: str = ""
    """The user's code."""


class Shaped(Struct, frozen=True):
    """All tensors and numbers that a compilation reads from outside, and how it treats their sizes."""

    compilation: str
    function: str
    file: str
    line: int
    tensors: tuple[ShapedTensor, ...] = ()
    unbacked: tuple[Unbacked, ...] = ()
    resumes: bool = False
    """Whether it resumes after a break; then its inputs are values that the code before the break computed."""
    complete: bool = True
    """Whether static sizes are included; torch does not log them, so they are missing if only torch wrote the log."""
    fail_type: str | None = None
    needed: tuple[SizeCondition, ...] = ()
    """Data-dependent conditions that torch could not decide, so that compiling failed or the graph broke."""


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
        # What the short form leaves out is the same for all of these: a static number that nobody marked.
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
    # `tensors`, below, has all of them; the log keeps those apart that need their sizes only.
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
