"""The sizes in a Session: plain frozen records."""

from enum import StrEnum
from typing import ClassVar

from msgspec import Struct


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
