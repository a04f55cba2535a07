"""What a Session says of sizes: plain frozen records, a part of `model.py`."""

from enum import StrEnum

from msgspec import Struct


class DimKind(StrEnum):
    """What a dimension became in a compilation."""

    STATIC = "static"
    """A number from the start."""
    SYMBOLIC = "symbolic"
    """Free within a range."""
    SPECIALIZED = "specialised"
    """Free at first, then fixed by the code that was compiled."""
    DUCK = "duck"
    """Free, but equal to another one, because both had the same size when they were first seen."""
    ZERO_ONE = "zero_one"
    """0 or 1, which torch never leaves free."""
    UNBACKED = "unbacked"
    """Free, and without an example: torch may not look at its value."""


class Policy(StrEnum):
    """Why torch began with a number, or with a symbol."""

    NOT_VARIED = "not_varied"
    """Static until it varies, which is torch's default."""
    PARAMETER = "parameter"
    """Parameters are static (force_parameter_static_shapes)."""
    MODULE = "nn_module_property"
    """What one of torch's own modules holds is static (force_nn_module_property_static_shapes)."""
    ALL_STATIC = "all_static"
    """torch.compile(dynamic=False)."""
    ALL_DYNAMIC = "all_dynamic"
    """torch.compile(dynamic=True)."""
    AUTOMATIC = "automatic"
    """It varied, so torch made it dynamic automatically."""
    MARKED_STATIC = "marked_static"
    MARKED_DYNAMIC = "marked_dynamic"
    """mark_dynamic: the user demands it, and it is an error if it cannot be."""
    MAYBE_DYNAMIC = "maybe_dynamic"
    """maybe_mark_dynamic: a wish."""
    MARKED_UNBACKED = "marked_unbacked"
    DECLARED = "declared"
    """torch.compile(dynamic_shapes=...) declares it dynamic, without guards."""
    DECLARED_STATIC = "declared_static"
    """torch.compile(dynamic_shapes=...) has a number for it, or leaves it out."""
    LISTED = "listed"
    """TORCH_COMPILE_DYNAMIC_SOURCES."""
    UNKNOWN = "unknown"
    """The log does not say."""


class ConditionKind(StrEnum):
    """What needed a condition on a size."""

    NUMBER = "number"
    """The user's code uses the size as a plain number, such as in `range(x.size(0))`."""
    CONDITION = "condition"
    """The user's code branches on it."""
    CHECK = "check"
    """An operation, or a torch._check, is only valid if the condition holds."""
    OPERATION = "operation"
    """An operation does something else if the condition does not hold."""


class Condition(Struct, frozen=True):
    """A condition that is true everywhere in a graph, and the user's line that needed it."""

    text: str
    """In the user's names, such as `x.size(0) > 3`."""
    why: str
    kind: ConditionKind
    file: str | None = None
    line: int | None = None
    source: str = ""
    """The user's code; of a condition that torch could not know, the condition alone."""
    value: str | None = None
    """The one value that is left, if it is only one."""


class Dimension(Struct, frozen=True):
    """One dimension of a tensor, or (without an index) a Python number."""

    index: int | None
    size: str
    """Of the example; empty: not known."""
    kind: DimKind
    policy: Policy
    stride: int | None = None
    became: str = ""
    """What it is in terms of other sizes, in the user's names; empty where it is free, or a number."""
    low: int | None = None
    high: int | None = None
    fixed: Condition | None = None
    """For a specialised one: what fixed it; None: the log does not say."""
    conditions: tuple[Condition, ...] = ()
    same_as: tuple[str, ...] = ()
    """For a duck-shaped one: which others, in the user's names."""
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
    """A size that depends on data, and the user's line that made it."""

    symbol: str
    low: int | None = None
    high: int | None = None
    file: str | None = None
    line: int | None = None
    source: str = ""
    """The user's code."""


class Shaped(Struct, frozen=True):
    """All that a compilation reads from outside, with what became of its sizes."""

    compilation: str
    function: str
    file: str
    line: int
    tensors: tuple[ShapedTensor, ...] = ()
    unbacked: tuple[Unbacked, ...] = ()
    resumes: bool = False
    """Whether it goes on after a break: what it reads then was made by the function itself."""
    complete: bool = True
    """False: a log of torch's own, which says nothing of what is static."""
    fail_type: str | None = None
    needed: tuple[Condition, ...] = ()
    """Conditions on data that torch had to know and could not: it failed for them, or broke the graph."""
