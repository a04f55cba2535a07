"""Compute the memory of a tensor from its printed type, whose integers an untrusted log may hold in any size."""

import ast
import math
import re
from collections.abc import Mapping

from msgspec import Struct

from ctrace.inspector.findings.graphs.fx import TensorType

_BITS = re.compile(r"[A-Za-z]+(\d+)(?:x(\d+))?")
_SYMBOL = re.compile(r"\b[suf]\d+\b|\bzuf\d+\b")
_LONGEST = 300
"""Maximum length of a size expression, in characters."""
_DIGITS = 18
"""The most digits that a size may have; a longer number is damaged text."""
_MOST_POWER, _MOST_BASE = 8, 10**6


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
    if 0 in known:
        return 0
    steps = [stride for stride in strides or () if stride is not None]
    if len(steps) < len(known):
        return math.prod(known) if strides is None else None
    return 1 + sum((size - 1) * step for size, step in zip(known, steps, strict=False))


def item_bytes(dtype: str) -> float | None:
    """Return the bytes of one element by torch's short dtype: 4 for `f32`, 1 for `b8` (bool) and `f8e4m3fn`."""
    if dtype.endswith("x2"):
        return 1
    match = _BITS.match(dtype)
    if match is None:
        return None
    return int(match[1][:4]) * int((match[2] or "1")[:4]) / 8


def number(expression: str, values: Mapping[str, str]) -> int | None:
    """Evaluate a size such as `s77*64` or `(s77//2)`; return None for an unknown symbol, or if the text is no size."""
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
