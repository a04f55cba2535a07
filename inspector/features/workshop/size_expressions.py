"""Sizes as Python expressions of symbols, such as `8*s77`, from the notation of Inductor's wrapper code or of sympy.

Torch writes one size in several ways, so two expressions count as equal if they agree for many values of their symbols
(`are_equal`). A notation that is not known is an `UnknownExpressionError`. A kernel that needs such a size cannot be
ejected: a `RefusalError` says why, and what to do instead.
"""

import ast
import copy
import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

_ALLOWED = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.Constant, ast.Name, ast.Load, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv,
    ast.Div, ast.Mod, ast.Pow, ast.USub, ast.Call,
)  # fmt: skip
_FUNCTIONS = frozenset(("max", "min"))
_WRITTEN = {
    "Max": "max(*)", "Min": "min(*)", "FloorDiv": "a // b", "CleanDiv": "a // b", "CeilDiv": "-(-a // b)",
    "ModularIndexing": "a // b % c", "Mod": "a % b", "PythonMod": "a % b", "IntTrueDiv": "a / b",
    "FloatTrueDiv": "a / b", "PowByNatural": "a ** b", "ToFloat": "1.0 * a", "Identity": "a",
}  # fmt: skip
"""sympy's functions of sizes, as torch prints them in graphs, in Python (2.11 to 2.15, utils/_sympy/functions.py)."""


class UnknownExpressionError(ValueError):
    """A size in a notation that ctrace does not know."""


@lru_cache(maxsize=4096)
def parsed(text: str) -> ast.expr:
    """Parse an expression.

    Raises:
        UnknownExpressionError: it contains more than numbers, symbols, `+ - * / // % **`, `max`, `min` and `_WRITTEN`.
    """
    try:
        tree: ast.Expression = _FromSympy().visit(ast.parse(text.strip(), mode="eval"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UnknownExpressionError(text) from None
    for node in ast.walk(tree):
        is_known = isinstance(node, _ALLOWED)
        if isinstance(node, ast.Constant):
            # By type: True is an int, and a size is none.
            is_known = type(node.value) in (int, float)
        if isinstance(node, ast.Call):
            is_known = isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and not node.keywords
        if not is_known:
            raise UnknownExpressionError(text)
    return tree.body


class _FromSympy(ast.NodeTransformer):
    """Writes sympy's functions in Python; a call with another number of arguments stays, and is unknown."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        form = None
        if isinstance(node.func, ast.Name) and not node.keywords:
            form = _WRITTEN.get(node.func.id)
        if form is None:
            return node
        if form.endswith("(*)"):
            return ast.Call(ast.Name(form[:-3], ast.Load()), node.args, [])
        names = dict(zip("abc", node.args, strict=False))
        tree = ast.parse(form, mode="eval").body
        used = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}
        is_known = used == names.keys() and len(node.args) == len(used)
        if not is_known:
            return node
        replaced: ast.expr = _Replacer(names).visit(tree)
        return replaced


class _Replacer(ast.NodeTransformer):
    """Replaces names by expressions."""

    def __init__(self, names: Mapping[str, ast.expr]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._names.get(node.id, node)


def symbols_of(text: str) -> tuple[str, ...]:
    """Return the symbols of an expression, each once, in order."""
    names = (node.id for node in ast.walk(parsed(text)) if isinstance(node, ast.Name) and node.id not in _FUNCTIONS)
    return tuple(dict.fromkeys(names))


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Write an expression in Python with other names for its symbols; an expression may replace a symbol."""
    known = {name: ast.parse(names.get(name, name), mode="eval").body for name in symbols_of(text)}
    # The parsed tree is in the cache, and a transformer changes trees in place.
    return ast.unparse(_Replacer(known).visit(copy.deepcopy(parsed(text))))


def value(text: str, symbols: Mapping[str, int]) -> float | None:
    """Compute an expression; None if a symbol's value is not known, or if it divides by zero or overflows."""
    if any(each not in symbols for each in symbols_of(text)):
        return None
    try:
        return _computed(parsed(text), symbols)
    except (ZeroDivisionError, OverflowError):
        return None


def are_equal(one: str, other: str) -> bool:
    """Whether two expressions agree for many values of their symbols.

    Raises:
        UnknownExpressionError: one of them cannot be parsed.
    """
    names = tuple(dict.fromkeys((*symbols_of(one), *symbols_of(other))))
    return all(value(one, known) == value(other, known) for known in _trials(names))


def _trials(names: Sequence[str]) -> Iterator[dict[str, int]]:
    """Yield values for symbols: different ones, all 0 and all 1, and each alone 0 and 1."""
    # 0 and 1 are what torch treats apart, e.g. `max(1, s0)`; multiples of 8 and others differ in `s0 // 8`.
    for base, step in ((2, 1), (7, 3), (16, 8), (64, 32), (97, 10), (128, 128), (1000, 37), (0, 0), (1, 0)):
        yield {name: base + step * at for at, name in enumerate(names)}
    if len(names) > 1:
        for small, alone in itertools.product((0, 1), names):
            yield {name: small if name == alone else 7 + 3 * at for at, name in enumerate(names)}


def _computed(node: ast.expr, symbols: Mapping[str, int]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name):
            return symbols[name]
        case ast.UnaryOp(operand=operand):
            return -_computed(operand, symbols)
        case ast.Call(func=ast.Name(id=name), args=args):
            numbers = [_computed(each, symbols) for each in args]
            if name == "max":
                return max(numbers)
            return min(numbers)
        case ast.BinOp(left=left, op=op, right=right):
            return _combined(op, _computed(left, symbols), _computed(right, symbols))
    raise UnknownExpressionError(ast.dump(node))


def _combined(op: ast.operator, one: float, other: float) -> float:
    match op:
        case ast.Add():
            return one + other
        case ast.Sub():
            return one - other
        case ast.Mult():
            return one * other
        case ast.Div():
            return one / other
        case ast.FloorDiv():
            return one // other
        case ast.Mod():
            return one % other
        # Larger powers are in no size, and could take forever to compute.
        case ast.Pow() if other in range(9):
            power: float = one ** int(other)
            return power
    raise UnknownExpressionError(ast.dump(op))


class RefusalError(Exception):
    """A kernel that cannot become a package: one line says why, the next what to do instead."""

    def __init__(self, why: str, instead: str) -> None:
        super().__init__(why)
        self.why = why
        self.instead = instead


SEE_DUMP = "ctrace kernels --dump DIR writes it as it is, as a file that runs"
