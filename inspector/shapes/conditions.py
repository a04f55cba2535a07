"""Conditions on sizes, from sympy's words to the user's: `Eq(Mod(s77, 2), 0)` is `x.size(0) % 2 == 0`."""

import ast
import re
from collections.abc import Mapping

_LONGEST = 2000
"""Characters of a condition that is still looked into."""
_COMPARED: dict[str, type[ast.cmpop]] = {"Eq": ast.Eq, "Ne": ast.NotEq}
_OPERATORS: dict[str, type[ast.operator]] = {
    "Mod": ast.Mod, "PythonMod": ast.Mod, "FloorDiv": ast.FloorDiv, "CleanDiv": ast.FloorDiv,
}  # fmt: skip
_BOUND = re.compile(r"(?P<symbol>\w+) (?P<sign><=?|>=?) (?P<limit>-?\d+)")
_SYMBOL = re.compile(r"\b(?:[su]|z[su]?f|zuf)\d+\b")


def in_words(expression: str, names: Mapping[str, str]) -> str:
    """Write a condition as Python would, with a name for each symbol; one that cannot be read keeps its form."""
    return _SYMBOL.sub(lambda match: names.get(match[0], match[0]), _as_python(expression))


def symbols_in(expression: str) -> tuple[str, ...]:
    """Give the symbols of a condition, each once."""
    return tuple(dict.fromkeys(_SYMBOL.findall(expression)))


def bounds_of(expression: str) -> tuple[str, int | None, int | None] | None:
    """Read `s77 > 3` as the symbol with its lowest and highest value; None for any other condition."""
    match = _BOUND.fullmatch(expression)
    if match is None:
        return None
    limit, sign = int(match["limit"]), match["sign"]
    if sign[0] == ">":
        return match["symbol"], limit + (sign == ">"), None
    return match["symbol"], None, limit - (sign == "<")


def _as_python(expression: str) -> str:
    if len(expression) > _LONGEST:
        return expression
    try:
        tree = ast.parse(expression.strip(), mode="eval")
        return ast.unparse(_Python().visit(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the text comes from a log, and may be anything
        return expression


class _Python(ast.NodeTransformer):
    """Turns sympy's functions into operators."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id=name), args=[left, right]) if name in _COMPARED:
                return ast.Compare(left, [_COMPARED[name]()], [right])
            case ast.Call(func=ast.Name(id=name), args=[left, right]) if name in _OPERATORS:
                return ast.BinOp(left, _OPERATORS[name](), right)
        return node
