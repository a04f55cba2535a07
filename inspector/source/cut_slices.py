"""What changed statements read in each call, and that a slice may have cut to fewer elements than it asks for.

`self.table[:n]` has fewer than `n` rows where the table is shorter, and Python says nothing. Code that adds it on one
side of a branch raises for such a size there only; a selection of both sides raises in each call. Sizes that are larger
than a table may be too large to try.

Reads Python without running it.
"""

import ast
from collections.abc import Iterator, Mapping

from ctrace.inspector.source.attribute_writes import FUNCTIONS
from ctrace.inspector.source.text import parsed, replaced_lines


def cut_slices(before: str, after: str) -> tuple[str, ...]:
    """Return a question for each slice up to a size that is computed, where changed statements combine it."""
    new = parsed(after)
    lines = replaced_lines(after, before)
    if new is None or not lines:
        return ()
    asked: dict[str, None] = {}
    for function in ast.walk(new):
        if not isinstance(function, FUNCTIONS):
            continue
        values = _assigned(function)
        for each in ast.walk(function):
            if isinstance(each, ast.BinOp) and each.lineno in lines:
                for side in (each.left, each.right):
                    asked |= dict.fromkeys(map(_question, _slices(side, values)))
    return tuple(asked)


def _question(text: str) -> str:
    return f"Is `{text}` always as long as its bound? A shorter one is cut, and each call reads it now."


def _assigned(function: ast.AST) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for each in ast.walk(function):
        match each:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.setdefault(name, []).append(value)
    return found


def _slices(side: ast.expr, values: Mapping[str, list[ast.expr]]) -> Iterator[str]:
    """Yield the slices that a side of an operation is: itself, or what its name holds."""
    for each in values.get(side.id, ()) if isinstance(side, ast.Name) else (side,):
        if isinstance(each, ast.Subscript) and any(map(_is_computed, _bounds(each))):
            yield ast.unparse(each)


def _bounds(node: ast.Subscript) -> Iterator[ast.expr]:
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    yield from (each.upper for each in parts if isinstance(each, ast.Slice) and each.upper is not None)


def _is_computed(bound: ast.expr) -> bool:
    """Whether a bound is no constant, and not counted from the end."""
    return not isinstance(bound, ast.Constant | ast.UnaryOp)
