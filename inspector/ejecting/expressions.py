"""Sizes as Python expressions of symbols, such as `8*s77`, in the notation of Inductor's wrapper code."""

import ast
from collections.abc import Mapping
from functools import lru_cache

_ALLOWED = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.Constant, ast.Name, ast.Load, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv,
    ast.Mod, ast.Pow, ast.USub, ast.Call,
)  # fmt: skip
_FUNCTIONS = frozenset(("max", "min", "Max", "Min"))


class UnknownExpressionError(ValueError):
    """A size in a notation that ctrace does not know."""


@lru_cache(maxsize=4096)
def parsed(text: str) -> ast.expr:
    """Parse an expression.

    Raises:
        UnknownExpressionError: it contains more than integers, symbols, `+ - * // % **`, `max` and `min`.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UnknownExpressionError(text) from None
    for node in ast.walk(tree):
        is_known = isinstance(node, _ALLOWED) and not (isinstance(node, ast.Constant) and type(node.value) is not int)
        if isinstance(node, ast.Call):
            is_known = isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and not node.keywords
        if not is_known:
            raise UnknownExpressionError(text)
    return tree.body


def symbols_of(text: str) -> tuple[str, ...]:
    """Return the symbols of an expression, each once, in order."""
    names = (node.id for node in ast.walk(parsed(text)) if isinstance(node, ast.Name) and node.id not in _FUNCTIONS)
    return tuple(dict.fromkeys(names))


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Write an expression with other names for its symbols; an expression may replace a symbol."""
    found = symbols_of(text)
    return ast.unparse(_Renamer(names).visit(ast.parse(text.strip(), mode="eval")).body) if found else text.strip()


class _Renamer(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in ("Max", "Min"):
            return ast.Name(node.id.lower())
        return ast.parse(self._names.get(node.id, node.id), mode="eval").body


def value(text: str, symbols: Mapping[str, int]) -> int | None:
    """Compute an expression; None if a symbol's value is not known."""
    if any(each not in symbols for each in symbols_of(text)):
        return None
    return _computed(parsed(text), symbols)


def are_equal(one: str, other: str) -> bool:
    """Whether two expressions agree for many values of their symbols.

    Raises:
        UnknownExpressionError: one of them cannot be parsed.
    """
    names = dict.fromkeys((*symbols_of(one), *symbols_of(other)))
    return all(
        value(one, known) == value(other, known)
        for known in ({name: base + step * at for at, name in enumerate(names)} for base, step in _TRIALS)
    )


_TRIALS = ((2, 1), (7, 3), (16, 8), (64, 32), (97, 10), (128, 128), (1000, 37))
"""Values for symbols: the first one's, and the difference to the next one's."""


def _computed(node: ast.expr, symbols: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int() as number):
            return number
        case ast.Name(id=name):
            return symbols[name]
        case ast.UnaryOp(operand=operand):
            return -_computed(operand, symbols)
        case ast.Call(func=ast.Name(id=name), args=args):
            numbers = [_computed(each, symbols) for each in args]
            return max(numbers) if name.lower() == "max" else min(numbers)
        case ast.BinOp(left=left, op=op, right=right):
            return _combined(op, _computed(left, symbols), _computed(right, symbols))
    raise UnknownExpressionError(ast.dump(node))


def _combined(op: ast.operator, one: int, other: int) -> int:
    match op:
        case ast.Add():
            return one + other
        case ast.Sub():
            return one - other
        case ast.Mult():
            return one * other
        case ast.FloorDiv():
            return one // other
        case ast.Mod():
            return one % other
        case ast.Pow() if 0 <= other <= 8:
            return int(one**other)
    raise UnknownExpressionError(ast.dump(op))
