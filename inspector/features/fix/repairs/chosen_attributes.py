"""What callers decide about an object: which of the attributes that a change reads its constructor takes from them.

`Net(rate=2)` and `Net(rate=1.5)` are objects of one class, and the file makes one of them. A rate that is an integer
leaves lengths integers on both sides of a branch; torch.where makes all of them floats where it is a fraction. A proof
gives such attributes values of other types and forms (child/other_objects.py).

Reads Python without running it.
"""

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from ctrace.inspector.source.absent_values import assigned_values
from ctrace.inspector.source.attribute_writes import FUNCTIONS, is_none, is_self, keyword_of, last_name

_DEEPEST = 3
"""Names that are followed back to the attributes that they were computed from."""
_MOST_OF_CALLERS = 4
"""Attributes that are tried; each doubles the values of a probe."""
_KEEPING_DTYPE = frozenset(("as_tensor", "asarray", "from_numpy", "tensor"))
"""Functions that make a tensor of what they get, in its dtype."""


def chosen_attributes(tree: ast.Module, lines: Collection[int]) -> tuple[str, ...]:
    """Return the attributes that statements on some lines compute with and that callers choose, without `self.`.

    Of what a caller passes as a whole, each part: `config.rate`, `options['rate']`.
    """
    found: dict[str, None] = {}
    functions = [each for each in ast.walk(tree) if isinstance(each, FUNCTIONS)]
    for function in functions:
        nodes = [each for each in ast.walk(function) if getattr(each, "lineno", 0) in lines]
        if nodes:
            values = assigned_values(function.body)
            found |= {name: None for each in nodes for name in _read(each, values, 0)}
            found |= dict.fromkeys(_passed(tree, function))
    return tuple(each for each in found if _is_chosen(tree, functions, each))[:_MOST_OF_CALLERS]


class PassedParameter(NamedTuple):
    """What a file says of a parameter that an attribute is assigned from as it is."""

    is_annotated: bool
    has_default: bool


def parameters_behind(tree: ast.Module, names: Iterable[str]) -> dict[str, PassedParameter]:
    """Return the parameters of methods that attributes of these names are, as in `self.rate = rate`.

    Of several, the one that says least: a caller may use any of the methods.
    """
    wanted, found = frozenset(names), dict[str, PassedParameter]()
    for function in (each for each in ast.walk(tree) if isinstance(each, FUNCTIONS)):
        given = _parameters(function)
        for each in ast.walk(function):
            match each:
                case ast.Assign(targets=[ast.Attribute(value=holder, attr=name)], value=ast.Name(id=passed)):
                    if name in wanted and is_self(holder) and passed in given:
                        found[name] = min(given[passed], found.get(name, given[passed]))
    return found


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, PassedParameter]:
    """Return the parameters of a function by name, without `self`."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    plain = [None] * (len(positional) - len(given.defaults))
    pairs = [
        *zip(positional, [*plain, *given.defaults], strict=True),
        *zip(given.kwonlyargs, given.kw_defaults, strict=True),
    ]
    return {
        each.arg: PassedParameter(each.annotation is not None, default is not None)
        for each, default in pairs
        if each.arg != "self"
    }


def _read(node: ast.AST, values: Mapping[str, list[ast.expr]], depth: int) -> Iterator[str]:
    """Yield the attributes of self in a node, and in what its names were computed from."""
    match node:
        case ast.Attribute() | ast.Subscript():
            yield from _path(node)
        case ast.Name(id=name) if depth < _DEEPEST:
            for value in values.get(name, ()):
                for each in ast.walk(value):
                    yield from _read(each, values, depth + 1)


def _path(node: ast.Attribute | ast.Subscript) -> Iterator[str]:
    """Yield an attribute of self, or a part of one, without `self.`."""
    inner: ast.expr = node
    while isinstance(inner, ast.Attribute) or (
        isinstance(inner, ast.Subscript) and isinstance(inner.slice, ast.Constant)
    ):
        inner = inner.value
    if is_self(inner):
        yield ast.unparse(node).removeprefix("self.")


def _passed(tree: ast.Module, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Yield the attributes that calls pass to a function of the file that is no method."""
    if function in tree.body:
        for each in ast.walk(tree):
            if isinstance(each, ast.Call) and last_name(each.func) == function.name:
                for given in (*each.args, *(word.value for word in each.keywords)):
                    yield from _read(given, {}, _DEEPEST)


def _is_chosen(tree: ast.Module, functions: list[ast.FunctionDef | ast.AsyncFunctionDef], name: str) -> bool:
    """Whether what an attribute holds depends on the caller of a method: it is its argument, or one of two choices."""
    root = re.split(r"[.\[]", name)[0]
    for function in functions:
        given = {each.arg for each in (*function.args.args, *function.args.kwonlyargs)} - {"self"}
        for each in ast.walk(function):
            match each:
                case ast.Assign(targets=[ast.Attribute(value=holder, attr=found)], value=value) if is_self(holder):
                    if found == root and (_depends(value, given) or _has_chosen_dtype(value, given)):
                        return True
                case ast.Call(func=ast.Attribute(attr="register_buffer"), args=[ast.Constant(value=found), value, *_]):
                    if found == root and (_depends_as_buffer(value, given) or _has_chosen_dtype(value, given)):
                        return True
    return False


def _depends_as_buffer(value: ast.expr, given: Collection[str]) -> bool:
    """Whether a buffer is what a caller gives, or one of two tensors; one that may be None is asked about instead."""
    sides = [side for each in ast.walk(value) if isinstance(each, ast.IfExp) for side in (each.body, each.orelse)]
    return _depends(value, given) and not any(map(is_none, sides))


def _is_given(value: ast.expr, given: Collection[str]) -> bool:
    return isinstance(value, ast.Name) and value.id in given


def _has_chosen_dtype(value: ast.expr, given: Collection[str]) -> bool:
    """Whether a call makes a tensor of a dtype that is an argument, or that of an argument: an array has float64."""
    for each in ast.walk(value):
        if isinstance(each, ast.Call):
            dtype = keyword_of(each, "dtype")
            if dtype is None and last_name(each.func) in _KEEPING_DTYPE:
                dtype = next(iter(each.args), None)
            if dtype is not None and _is_given(dtype, given):
                return True
    return False


def _depends(value: ast.expr, given: Collection[str]) -> bool:
    if isinstance(value, ast.Name):
        return _is_given(value, given)
    return any(isinstance(each, ast.IfExp | ast.BoolOp) for each in ast.walk(value))
