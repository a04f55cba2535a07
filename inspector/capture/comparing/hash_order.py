"""Find the lines that depend on the order of a set, and those that draw NumPy's random numbers, by reading the source.

No hook sees either: a set is iterated without a call, and NumPy's generators are called without an event (Python 3.11).
The order of a set of strings depends on PYTHONHASHSEED, that of a set of objects on their addresses; compiled code may
use the order in which they were added. So names are looked up where a function of the program ended.
"""

import ast
import linecache
from collections.abc import Iterator
from functools import lru_cache
from inspect import getattr_static
from types import CodeType, ModuleType
from typing import Any

from msgspec import Struct

_UNKNOWN = object()
_ORDERLESS = frozenset(
    ("len", "sorted", "min", "max", "any", "all", "bool", "set", "frozenset", "isinstance", "issubclass", "type", "id")
)
"""Functions whose result is the same for any order of a set."""
_OF_SETS = frozenset(("union", "intersection", "difference", "symmetric_difference", "copy"))
_OPERATORS = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Namespace(Struct, frozen=True):
    """What the names of a function stood for when it returned."""

    local: dict[str, Any]
    globals: dict[str, Any]


def set_readings(code: CodeType, names: Namespace) -> Iterator[tuple[int, str]]:
    """Yield the lines of a function whose result may depend on the order of a set."""
    reader = _Reader(names)
    for node in _nodes(code):
        for each in _iterated(node):
            if reader.is_unordered(each):
                yield each.lineno, f"the order of the set `{ast.unparse(each)[:40]}`"


def numpy_draws(code: CodeType, names: Namespace) -> Iterator[tuple[int, str]]:
    """Yield the lines of a function that call a random generator of NumPy."""
    reader = _Reader(names)
    for node in _nodes(code):
        if isinstance(node, ast.Call) and reader.draws(node.func):
            yield node.lineno, ast.unparse(node.func)


def _nodes(code: CodeType) -> Iterator[ast.AST]:
    """Yield the nodes of a function's own code, which other functions inside it are not."""
    for function in _functions(code.co_filename):
        first = min([function.lineno, *(each.lineno for each in getattr(function, "decorator_list", ()))])
        # Python counts a function's lines from its first decorator.
        if first == code.co_firstlineno and getattr(function, "name", "<lambda>") == code.co_name:
            body = function.body if isinstance(function.body, list) else [function.body]
            for statement in body:
                yield from _own(statement)
            return


def _own(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for each in ast.iter_child_nodes(node):
        if not isinstance(each, _FUNCTIONS):
            yield from _own(each)


@lru_cache(maxsize=64)
def _functions(file: str) -> tuple[Any, ...]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ()
    return tuple(node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS))


def _iterated(node: ast.AST) -> Iterator[Any]:
    """Yield the expressions that a statement or expression iterates, in the order of their items."""
    match node:
        case (
            ast.For(iter=found) | ast.comprehension(iter=found) | ast.Starred(value=found) | ast.YieldFrom(value=found)
        ):
            yield found
        case ast.Assign(targets=[ast.Tuple() | ast.List(), *_], value=found) | ast.FormattedValue(value=found):
            yield found
        case ast.Call(func=ast.Attribute(attr="pop", value=found), args=[]):
            yield found
        # Before the general case, which takes every argument of a call as iterated.
        case ast.Call(func=ast.Name(id=name)) if name in _ORDERLESS:
            pass
        case ast.Call(func=ast.Attribute(attr=name)) if name in _OF_SETS or name == "update":
            pass
        case ast.Call(args=found):
            yield from found


class _Reader:
    """Finds out what expressions stand for, without running them."""

    def __init__(self, names: Namespace) -> None:
        self._names = names

    def is_unordered(self, node: ast.AST) -> bool:
        """Whether an expression is a set whose order may differ between processes, or between copies."""
        match node:
            case ast.Set(elts=items):
                return not all(isinstance(each, ast.Constant) and _is_stable(each.value) for each in items)
            case ast.SetComp():
                return True
            case ast.Call(func=ast.Name(id="set" | "frozenset"), args=[_, *_]):
                return True
            case ast.Call(func=ast.Attribute(attr=name, value=value)) if name in _OF_SETS:
                return self.is_unordered(value)
            case ast.BinOp(left=left, right=right, op=operator) if isinstance(operator, _OPERATORS):
                return self.is_unordered(left) or self.is_unordered(right) or _is_view(left)
            case ast.Name() | ast.Attribute():
                value = self._value(node)
                return isinstance(value, set | frozenset) and not all(map(_is_stable, value))
        return False

    def draws(self, function: ast.AST) -> bool:
        """Whether a function belongs to a random generator of NumPy."""
        value = self._value(function)
        if value is _UNKNOWN:  # a method of an instance of C
            owner = self._value(function.value) if isinstance(function, ast.Attribute) else _UNKNOWN
        else:
            owner = getattr_static(value, "__self__", _UNKNOWN)
            owner = getattr(value, "__self__", _UNKNOWN) if owner is not _UNKNOWN else owner
        return str(type(owner).__module__).startswith("numpy.random")

    def _value(self, node: ast.AST) -> Any:
        """Return what a name or an attribute of one stands for; no code of the program runs."""
        if isinstance(node, ast.Name):
            return self._names.local.get(node.id, self._names.globals.get(node.id, _UNKNOWN))
        if not isinstance(node, ast.Attribute):
            return _UNKNOWN
        owner = self._value(node.value)
        if owner is _UNKNOWN:
            return _UNKNOWN
        if isinstance(owner, ModuleType):
            return vars(owner).get(node.attr, _UNKNOWN)
        try:
            found = object.__getattribute__(owner, "__dict__").get(node.attr, _UNKNOWN)
        except AttributeError:
            return _UNKNOWN
        return found if found is not _UNKNOWN else vars(type(owner)).get(node.attr, _UNKNOWN)


def _is_stable(value: Any) -> bool:
    """Whether the hash of a value is the same in every process."""
    return isinstance(value, int | float | complex)


def _is_view(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("keys", "items")
