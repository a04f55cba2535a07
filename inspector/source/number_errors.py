"""Where Python raises for the number of a tensor, and compiled code that keeps the number in the graph does not.

Python divides 1.0 by zero with ZeroDivisionError and takes no root of a negative number; generated code returns
infinity or NaN. Of whole numbers, code that Inductor builds for a CPU returns 0 for `7 // 0`, and `7 % 0` is an
instruction that the processor refuses (SIGFPE). Measured with 2.13. The number may reach the division by another name,
an attribute, or as what the function returns that reads it. Integers that a module keeps, such as a counter, are
numbers of the graph, too, where `allow_unspec_int_on_nn_module` is set.

For NaN and infinity, `int(n * 8)` and `round(n)` raise, and generated code returns the least integer there is. Most
functions of `math` raise outside of their domain or range, and generated code returns NaN or infinity.

Python's `max(1.0, n)` is 1.0 where `n` is NaN, since no comparison with NaN is true, and `max(n, 1.0)` is NaN. What
Inductor generates returns NaN for both.

Reads Python without running it.
"""

import ast
from collections.abc import Iterator
from types import UnionType

from msgspec import Struct

from ctrace.inspector.source.attribute_writes import FUNCTIONS, last_name
from ctrace.inspector.source.text import parsed

_READERS = frozenset(("item", "int", "float", "len", "size", "numel"))
"""Functions and methods that return a number."""
_OF_NUMBERS = frozenset(("abs", "min", "max", "round", "int", "float"))
"""Functions that return a number for numbers."""
_NEVER_NEGATIVE = frozenset(
    ("abs", "square", "norm", "vector_norm", "std", "var", "exp", "sqrt", "sigmoid", "softmax", "relu", "softplus")
) | frozenset(("count_nonzero", "numel", "len", "size", "any", "all"))
_KEEPING_SIGNS = frozenset(
    ("item", "float", "int", "min", "max", "amin", "amax", "mean", "median", "sum", "round", "to", "detach", "cpu")
)
"""Functions whose result is not negative if nothing that they are called on is."""
_WHOLE = frozenset(("count_nonzero", "argmax", "argmin"))
_CHOOSING = frozenset(("where", "masked_fill", "masked_select"))
"""Functions whose result is no mask though they get one."""
_FRACTIONS = frozenset(("mean", "norm", "vector_norm", "std", "var", "sigmoid", "softmax", "exp", "sqrt", "rand"))
_ROUNDING = frozenset(("int", "round", "floor", "ceil", "trunc"))
_LOGARITHMS = frozenset(("log", "log2", "log10"))
_LIMITED = frozenset(("log1p", "exp", "expm1", "sinh", "cosh", "asin", "acos", "acosh", "atanh", "pow"))
"""Functions of `math` that raise for some numbers."""
# Chosen, as in `autocast_sides.py`.
_DEEPEST = 4


class NumberErrors(Struct, frozen=True):
    """What Python raises for a number, and compiled code does not."""

    divides: bool = False
    divides_whole: bool = False
    """Whether it takes a quotient without its fraction, or a remainder."""
    takes_roots: bool = False
    rounds: bool = False
    """Whether it makes an integer of a number that may be NaN or infinite."""
    leaves_range: bool = False
    """Whether it calls a function of `math` that raises for some numbers."""
    passes_over_nan: bool = False
    """Whether `min` or `max` gets it behind another argument, which they return where it is NaN."""


def number_errors(text: str, line: int) -> NumberErrors:
    """Read what Python does with the number that a line reads from a tensor."""
    tree = parsed(text)
    if tree is None:
        return NumberErrors()
    held = _Held(tree)
    held.read_at(line)
    return _errors(tree, held)


def attribute_errors(text: str, name: str) -> NumberErrors:
    """Read what Python does with the number that an attribute of this name holds."""
    tree = parsed(text)
    if tree is None:
        return NumberErrors()
    held = _Held(tree)
    held.follow(name)
    return _errors(tree, held)


def _errors(tree: ast.Module, held: "_Held") -> NumberErrors:
    nodes = [(each, function) for function in _functions(tree) for each in ast.walk(function)]
    return NumberErrors(
        any(_divides(each, function, held, ast.Div) for each, function in nodes),
        any(_divides(each, function, held, ast.FloorDiv | ast.Mod) for each, function in nodes),
        any(_takes_root(each, function, held) for each, function in nodes),
        not held.counts and any(_rounds(each, function, held) for each, function in nodes),
        any(_leaves_range(each, function, held) for each, function in nodes),
        not held.is_whole and any(_passes_over(each, function, held) for each, function in nodes),
    )


def _functions(tree: ast.AST) -> Iterator[ast.AST]:
    return (each for each in ast.walk(tree) if isinstance(each, FUNCTIONS))


class _Held:
    """The names, attributes and functions of a file that hold or return a number of a tensor."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self._line = 0
        self._names: dict[int, set[str]] = {}
        """Local names, by the id of their function."""
        self._others: set[str] = set()
        """Attributes, and functions that return it."""
        self.is_never_negative = False
        self.counts = False
        """Whether what is read certainly counts something, so that it is never NaN."""
        self.is_whole = False
        """Whether the number is an integer then, as `int()` also makes it."""
        self.has_fraction = False
        """Whether an op computes what is read that has no integers."""

    def read_at(self, line: int) -> None:
        """Follow the number that a line reads, until no name is new."""
        self._line = line
        self._follow_all()
        heads = [each for each in ast.walk(self.tree) if isinstance(each, ast.Call) and each.lineno == line]
        readers = [each for each in heads if last_name(each.func) in _READERS]
        self.is_never_negative = bool(readers) and all(map(_is_never_negative, readers))
        self.has_fraction = bool({last_name(each.func) for each in heads} & _FRACTIONS)
        self.counts = not self.has_fraction and any(_counts(each, self.tree) for each in heads)
        self.is_whole = self.counts or any(last_name(each.func) == "int" for each in heads)

    def follow(self, attribute: str) -> None:
        """Follow the number that an attribute holds."""
        self._others.add(attribute)
        self.counts = self.is_whole = True  # what a module counts
        self._follow_all()

    def _follow_all(self) -> None:
        size = -1
        # A name may be assigned before the line that makes the number reach it, as in a loop.
        while size != self._size():
            size = self._size()
            for function in _functions(self.tree):
                for each in ast.walk(function):
                    self._follow(each, function)

    def _size(self) -> int:
        return len(self._others) + sum(map(len, self._names.values()))

    def _follow(self, node: ast.AST, function: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value) if self.is_number(value, function):
                for target in targets:
                    self._keep(target, function)
            case ast.AnnAssign(target=target, value=ast.expr() as value) if self.is_number(value, function):
                self._keep(target, function)
            case ast.NamedExpr(target=target, value=value) if self.is_number(value, function):
                self._keep(target, function)
            case ast.Return(value=ast.expr() as value) if self.is_number(value, function):
                self._others.add(getattr(function, "name", ""))

    def _keep(self, target: ast.expr, function: ast.AST) -> None:
        if isinstance(target, ast.Name):
            self._names.setdefault(id(function), set()).add(target.id)
        elif isinstance(target, ast.Attribute):
            self._others.add(target.attr)

    def is_number(self, node: ast.expr, function: ast.AST) -> bool:
        """Whether an expression is the number, or arithmetic of Python with it."""
        match node:
            case ast.Name(id=name):
                return name in self._names.get(id(function), ())
            case ast.Attribute(attr=name):
                return name in self._others
            case ast.Call(func=called, args=arguments):
                if last_name(called) in _OF_NUMBERS and any(self.is_number(each, function) for each in arguments):
                    return True
                # A call over several lines is read at each of them.
                is_read = last_name(called) in _READERS and node.lineno <= self._line <= (node.end_lineno or 0)
                return is_read or last_name(called) in self._others
            case ast.BinOp(left=left, right=right):
                held = [self.is_number(each, function) for each in (left, right)]
                plain = [is_plain_number(each, function) for each in (left, right)]
                return any(held) and all(one or other for one, other in zip(held, plain, strict=True))
            case ast.UnaryOp(operand=operand):
                return self.is_number(operand, function)
        return False


def _divides(node: ast.AST, function: ast.AST, held: _Held, kinds: type | UnionType) -> bool:
    """Whether an operation of some kinds divides a number by the one that was read, which may be zero."""
    match node:
        case ast.BinOp(left=left, op=kind, right=right) if isinstance(kind, kinds):
            # A tensor divided by zero gives infinity in Python as well.
            is_numerator = is_plain_number(left, function, held.tree) or held.is_number(left, function)
            return is_numerator and held.is_number(right, function) and not _is_positive(right, held)
    return False


def _is_positive(node: ast.expr, held: _Held) -> bool:
    """Whether an expression with a number cannot be zero: `max(n, 1)`, or `norm + 1e-6` of what is never negative."""
    match node:
        case ast.Call(func=ast.Name(id="max"), args=arguments):
            return any(_is_positive_literal(each) for each in arguments)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return held.is_never_negative and any(_is_positive_literal(each) for each in (left, right))
    return False


def _is_positive_literal(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value > 0


def _takes_root(node: ast.AST, function: ast.AST, held: _Held) -> bool:
    """Whether an operation takes a root of the number that was read, which may be negative."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="math"), attr="sqrt"), args=[given]):
            pass
        # A whole power of a negative number is real.
        case ast.BinOp(left=given, op=ast.Pow(), right=ast.Constant(value=float(power))) if not power.is_integer():
            pass
        case _:
            return False
    return held.is_number(given, function) and not (held.is_never_negative or _is_positive(given, held))


def _rounds(node: ast.AST, function: ast.AST, held: _Held) -> bool:
    """Whether a call makes an integer of arithmetic with the number that was read, or of a number with a fraction.

    `int(n)` alone often gets an integer, which changes nothing.
    """
    match node:
        case ast.Call(func=called, args=[given, *_]) if last_name(called) in _ROUNDING:
            is_certain = isinstance(given, ast.BinOp) or last_name(called) != "int" or held.has_fraction
            return is_certain and held.is_number(given, function)
    return False


def _leaves_range(node: ast.AST, function: ast.AST, held: _Held) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="math"), attr=name), args=[given, *_]):
            is_limited = name in _LIMITED or (name in _LOGARITHMS and not _is_positive(given, held))
            return is_limited and held.is_number(given, function)
        case ast.BinOp(left=given, op=ast.Pow(), right=ast.UnaryOp(op=ast.USub())):
            return held.is_number(given, function) and not _is_positive(given, held)
    return False


def _passes_over(node: ast.AST, function: ast.AST, held: _Held) -> bool:
    """Whether `min` or `max` gets the number that was read, or arithmetic with it, behind another argument."""
    match node:
        case ast.Call(func=ast.Name(id="min" | "max"), args=[_, *later]):
            below = (each for one in later for each in ast.walk(one))
            return any(isinstance(each, ast.expr) and held.is_number(each, function) for each in below)
    return False


def _is_never_negative(node: ast.expr) -> bool:
    """Whether an expression is certainly not negative: `x.abs().max()`, and not `(x.abs() - y.abs()).max()`."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return value >= 0
        case ast.BinOp(left=left, op=ast.Add() | ast.Mult() | ast.Div(), right=right):
            return _is_never_negative(left) and _is_never_negative(right)
        case ast.Call(func=called) if last_name(called) in _NEVER_NEGATIVE:
            return True
        case ast.Call(func=ast.Name() | ast.Attribute(value=ast.Name(id="torch")) as called, args=[first, *others]):
            # `max(a, b)` may be either; the second argument of a function of torch is a dimension.
            operands = [first, *others] if isinstance(called, ast.Name) else [first]
            return last_name(called) in _KEEPING_SIGNS and all(map(_is_never_negative, operands))
        case ast.Call(func=ast.Attribute(value=subject, attr=name)) if name in _KEEPING_SIGNS:
            return _is_never_negative(subject)
    return False


def _counts(node: ast.Call, tree: ast.AST) -> bool:
    """Whether a call returns an integer whatever it is given, or reduces a mask that the file computes."""
    if last_name(node.func) in _WHOLE:
        return True
    names = {each.id for each in _reduced(node) if isinstance(each, ast.Name)}
    masks = [node, *(value for function in _functions(tree) for name in names for value in _values_of(function, name))]
    return any(isinstance(each, ast.Compare) for mask in masks for each in _reduced(mask))


def _reduced(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of an expression that its value is computed from, without those that only choose."""
    yield node
    is_choice = isinstance(node, ast.Call) and last_name(node.func) in _CHOOSING
    for name, below in ast.iter_fields(node):
        if (isinstance(node, ast.Subscript) and name == "slice") or (is_choice and name == "args"):
            continue
        # Fields of `ast` nodes are nodes, lists of these, or plain values.
        for each in below if isinstance(below, list) else [below]:
            if isinstance(each, ast.AST):
                yield from _reduced(each)


def is_plain_number(node: ast.expr, function: ast.AST, tree: ast.AST | None = None, depth: int = 0) -> bool:
    """Whether an expression is certainly a number of Python, whose division by zero raises.

    With a tree, attributes and global names that the file only sets to literal numbers are, too.
    """
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | float)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in _READERS
        case ast.Subscript(value=ast.Attribute(attr="shape")):
            return True
        case ast.BinOp(left=left, right=right):
            return all(is_plain_number(each, function, tree, depth) for each in (left, right))
        case ast.UnaryOp(operand=operand):
            return is_plain_number(operand, function, tree, depth)
        case ast.Name(id=name) if depth < _DEEPEST:
            values = _values_of(function, name)
            if not values and tree is not None:
                body = getattr(tree, "body", [])
                values = [value for each in body for value in _values_of(each, name) if not isinstance(each, FUNCTIONS)]
            return bool(values) and all(is_plain_number(each, function, tree, depth + 1) for each in values)
        case ast.Attribute(attr=name) if tree is not None:
            found = [
                each.value
                for each in ast.walk(tree)
                if isinstance(each, ast.Assign)
                and any(isinstance(to, ast.Attribute) and to.attr == name for to in each.targets)
            ]
            # One line that sets something else, and the attribute is no certain number.
            return bool(found) and all(isinstance(each, ast.Constant) for each in found)
    return False


def _values_of(function: ast.AST, name: str) -> list[ast.expr]:
    return [
        each.value
        for each in ast.walk(function)
        if isinstance(each, ast.Assign) and any(isinstance(to, ast.Name) and to.id == name for to in each.targets)
    ]
