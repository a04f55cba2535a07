"""Convert a code object's constants from their text in the log to values and to source."""

import ast
from typing import Any

from ctrace.inspector.facts.bytecode_facts import Constant
from ctrace.inspector.features.bytecode.decompile.symbolic_values import Const, StopError
from ctrace.inspector.source.disassembly import constant_text

_FROZENSET = "frozenset"


def parsed(value: Const) -> ast.expr:
    """Return the expression that compiles to a constant; raise StopError if none exists."""
    text = "set()" if value.text == "frozenset()" else value.text
    if value.type == _FROZENSET:
        text = text.removeprefix("frozenset(").removesuffix(")")
    try:
        ast.literal_eval(text)
        return ast.parse(text, mode="eval").body
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError) as error:
        msg = f"The constant {value.text:.60} cannot be written as source."
        raise StopError(msg) from error


def is_writable(value: Const) -> bool:
    """Return whether a constant can be written as source."""
    try:
        parsed(value)
    except StopError:
        return False
    return True


def evaluated(value: Const) -> Any:
    """Evaluate a constant that is a Python literal."""
    try:
        return ast.literal_eval(value.text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError) as error:
        msg = f"The constant {value.text:.60} is not a literal."
        raise StopError(msg) from error


def items_of(value: Any) -> tuple[Any, ...]:
    """Return the items of a constant tuple; raise StopError for anything else."""
    found = evaluated(value) if isinstance(value, Const) else None
    if not isinstance(found, tuple):
        msg = "A constant tuple is expected, but the constant has another type."
        raise StopError(msg)
    return found


def const(value: Any) -> Const:
    """Return the constant for a Python literal's value."""
    return Const(type(value).__name__, constant_text(value))


def const_of(constant: Constant) -> Const:
    """Return the symbol for a constant of a code object."""
    return Const(constant.type, constant.text)
