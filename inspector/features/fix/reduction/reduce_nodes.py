"""Find nodes of a copied tree by number, and replace them."""

import ast
from collections.abc import Callable, Iterator

from ctrace.inspector.features.fix.reduction.reduced_program import Edit


def numbered(tree: ast.AST) -> Iterator[tuple[int, ast.AST]]:
    """Yield all nodes with their numbers."""
    return enumerate(ast.walk(tree))


def at(tree: ast.AST, number: int) -> ast.AST:
    """Return the node with a number."""
    return next(node for index, node in enumerate(ast.walk(tree)) if index == number)


def on(number: int, change: Callable[[ast.AST], bool]) -> Edit:
    """Return an edit that changes one node in place."""
    return lambda tree: change(at(tree, number))


def replacing(number: int, choose: Callable[[ast.AST], ast.AST | None]) -> Edit:
    """Return an edit that puts another expression in the place of one."""

    def edit(tree: ast.Module) -> bool:
        old = at(tree, number)
        new = choose(old)
        return new is not None and put(tree, old, new)

    return edit


def put(tree: ast.AST, old: ast.AST, new: ast.AST) -> bool:
    """Put a node in the place of another; return whether it was found."""
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, name, new)
                return True
            if isinstance(value, list):
                for index, each in enumerate(value):
                    if each is old:
                        value[index] = new
                        return True
    return False
