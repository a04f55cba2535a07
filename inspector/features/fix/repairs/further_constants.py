"""Numbers that decide what code does without standing in a comparison: ends of slices, named constants, defaults."""

import ast
from collections.abc import Iterable, Iterator

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def further_constants(node: ast.AST, named: frozenset[str]) -> Iterator[int | float]:
    """Yield the numbers that a node of a class or function names, cuts by, or takes where a call passes none.

    Args:
        node: the node alone, without those below it but for a slice.
        named: the names that the classes and functions of the file read.
    """
    match node:
        case ast.Subscript(slice=index):
            yield from _numbers(_parts(index))
        case ast.arguments(defaults=defaults, kw_defaults=others):
            yield from _numbers(each for each in (*defaults, *others) if each is not None)
        case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)], value=value) if name in named:
            yield from _numbers([value])
        case ast.AnnAssign(target=ast.Name(id=name) | ast.Attribute(attr=name), value=ast.expr() as value) if (
            name in named
        ):
            yield from _numbers([value])


def names_read(tree: ast.Module) -> frozenset[str]:
    """Return the names and attributes that the functions of a file read."""
    found: set[str] = set()
    for function in ast.walk(tree):
        if not isinstance(function, _FUNCTIONS):
            continue
        for each in ast.walk(function):
            match each:
                case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                    found.add(name)
    return frozenset(found)


def _parts(index: ast.expr) -> Iterator[ast.expr]:
    """Yield the single numbers of an index: `12` of `x[:, 12:]`."""
    for each in index.elts if isinstance(index, ast.Tuple) else (index,):
        ends = (each.lower, each.upper, each.step) if isinstance(each, ast.Slice) else (each,)
        yield from (end for end in ends if end is not None)


def _numbers(values: Iterable[ast.expr]) -> Iterator[int | float]:
    for value in values:
        try:
            number = ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(number, int) and not isinstance(number, bool) and abs(number) > 1:
            yield abs(number)  # `x[-12:]` has no other rows up to a size of 12
        elif isinstance(number, float):
            yield number
