"""Bytecode as plain data, with everything that `dis` prints, so that a saved run can show it."""

from msgspec import Struct

from ctrace.inspector.facts.wire import Integer


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
