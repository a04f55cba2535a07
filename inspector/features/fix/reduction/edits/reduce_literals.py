"""Make numbers and strings smaller: sizes, counts, names."""

import ast
from collections.abc import Iterator

from ctrace.inspector.features.fix.reduction.edits.reduce_nodes import numbered, on
from ctrace.inspector.features.fix.reduction.reduced_program import Edit

_SMALL = (2, 3, 4)
"""Sizes to try: 0 and 1 are special to torch, so 2 comes first."""


def shrink(tree: ast.Module) -> Iterator[Edit]:
    """Yield edits that make all equal numbers smaller together, then each alone."""
    values = sorted({each.value for each in ast.walk(tree) if _is_size(each)}, reverse=True)  # type: ignore[attr-defined]
    for value in values:
        for small in _smaller(value):
            yield _all_equal(value, small)
    for number, node in numbered(tree):
        if _is_size(node):
            for small in _smaller(node.value):  # type: ignore[attr-defined]
                yield on(number, lambda each, small=small: _set(each, small))  # type: ignore[misc]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) > 12:
            yield on(number, lambda each: _set(each, ""))


def _is_size(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value > 2


def _smaller(value: int) -> list[int]:
    return [small for small in (*_SMALL, value // 8, value // 2) if 2 <= small < value and len(str(small)) < 3]


def _set(node: ast.AST, value: object) -> bool:
    assert isinstance(node, ast.Constant)
    node.value = value  # type: ignore[assignment]
    return True


def _all_equal(value: int, small: int) -> Edit:
    def edit(tree: ast.Module) -> bool:
        found = [each for each in ast.walk(tree) if _is_size(each) and each.value == value]  # type: ignore[attr-defined]
        for each in found:
            _set(each, small)
        return bool(found)

    return edit
