"""What cannot be None where changed statements read it, because of the statements before them.

Reads Python without running it.
"""

import ast
from collections.abc import Collection, Iterator

from ctrace.inspector.source.attribute_writes import FUNCTIONS


def known_to_be_there(tree: ast.Module, lines: Collection[int]) -> set[str]:
    """Return the names and attributes, as written, that the changed statements find there, or raise as before.

    An enclosing `if self.n is not None:` lets nothing else through, nor does `if self.n is None: return` above, and
    `x * self.n` above raises for None in both programs.
    """
    found: set[str] | None = None
    for function in (each for each in ast.walk(tree) if isinstance(each, FUNCTIONS)):
        if any(each.lineno in lines for each in ast.walk(function) if isinstance(each, ast.stmt)):
            here = _safe_in(function.body, lines, set())
            found = here if found is None else found & here
    return found or set()


def _safe_in(body: list[ast.stmt], lines: Collection[int], known: set[str]) -> set[str]:
    """Return what is known before the first changed statement of a block."""
    known = set(known)
    for index, each in enumerate(body):
        if _has_line(each, lines):
            parts = (getattr(each, name, []) for name in ("body", "orelse", "finalbody"))
            inside = [part for part in parts if any(_has_line(one, lines) for one in part)]
            if len(inside) != 1 or any(_has_line(one, lines) for one in body[index + 1 :]):
                return known
            is_held = isinstance(each, ast.If) and inside[0] is each.body
            return _safe_in(inside[0], lines, known | set(_held(each.test) if is_held else ()))  # type: ignore[attr-defined]
        match each:
            case ast.If(test=test, body=[*_, ast.Return() | ast.Raise() | ast.Continue()], orelse=[]):
                known |= set(_missed(test))
            case ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.Expr() | ast.Return():
                known |= set(_used(each))
    return known


def _has_line(node: ast.stmt, lines: Collection[int]) -> bool:
    return any(isinstance(each, ast.stmt) and each.lineno in lines for each in ast.walk(node))


def _held(test: ast.expr) -> Iterator[str]:
    """Yield the names and attributes that are there where a test holds."""
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            for each in values:
                yield from _held(each)
        case ast.Compare(left=left, ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            yield from _name_of(left)
        case ast.Attribute() | ast.Name():
            yield from _name_of(test)


def _missed(test: ast.expr) -> Iterator[str]:
    """Yield the names and attributes for which a test certainly holds if they are None."""
    match test:
        case ast.BoolOp(op=ast.Or(), values=values):
            for each in values:
                yield from _missed(each)
        case ast.Compare(left=left, ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            yield from _name_of(left)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _name_of(operand)


def _name_of(node: ast.expr) -> Iterator[str]:
    """Yield a name, or an attribute with its object, as written."""
    if isinstance(node, ast.Name | ast.Attribute):
        yield ast.unparse(node)


def _used(statement: ast.stmt) -> Iterator[str]:
    """Yield the names and attributes that a statement computes with, so that it raises for None."""
    lazy = {
        id(below)
        for each in ast.walk(statement)
        if isinstance(each, ast.IfExp | ast.BoolOp | ast.Lambda | ast.ListComp | ast.GeneratorExp)
        for below in ast.walk(each)
    }
    for each in ast.walk(statement):
        if id(each) in lazy:
            continue
        match each:
            case ast.BinOp(left=left, right=right):
                yield from _name_of(left)
                yield from _name_of(right)
            case ast.Attribute(value=value) | ast.Subscript(value=value) | ast.Call(func=value):
                yield from _name_of(value)
