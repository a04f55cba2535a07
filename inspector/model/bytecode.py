"""Bytecode as data: what `dis` says of a code object, kept so that a saved run shows it without the code object."""

from msgspec import Struct


class Constant(Struct, frozen=True):
    """One constant of a code object."""

    type: str
    """Its class, such as `int` or `code`."""
    text: str
    """Its repr where it is a plain value of Python's; `<its class>` else. Items of sets are in sorted order."""
    code: "Code | None" = None
    """The code of a nested function."""


class Instruction(Struct, frozen=True):
    """One instruction; caches are left out, as `dis` does."""

    offset: int
    """Bytes from the start of the code."""
    opname: str
    arg: int | None
    """As encoded, `EXTENDED_ARG` taken in; None for an instruction without one."""
    text: str
    """The resolved argument as `dis` writes it: a name, a constant's text, `to 24`; empty for none."""
    line: int | None = None
    target: int | None = None
    """For a jump, the offset of where it goes."""


class Handler(Struct, frozen=True):
    """One entry of the exception table; `start`, `end` (exclusive) and `target` are offsets."""

    start: int
    end: int
    target: int
    depth: int
    lasti: bool


class Code(Struct, frozen=True):
    """A code object. `python` is the minor version that it is for, such as `3.11`."""

    python: str
    name: str
    qualname: str
    file: str
    line: int
    flags: int
    arguments: int
    """Positional arguments, positional-only ones among them."""
    positional_only: int
    keyword_only: int
    variables: tuple[str, ...]
    """Local variables, arguments first (`co_varnames`)."""
    cells: tuple[str, ...]
    free: tuple[str, ...]
    names: tuple[str, ...]
    constants: tuple[Constant, ...]
    instructions: tuple[Instruction, ...]
    handlers: tuple[Handler, ...] = ()


class Rewritten(Struct, frozen=True):
    """A function's code as it was, and as Dynamo made it."""

    before: Code
    after: Code
