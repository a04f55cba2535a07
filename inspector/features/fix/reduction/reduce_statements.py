"""Drop statements, definitions and imports, strip what has no effect, and replace blocks by what is in them."""

import ast
from collections.abc import Iterator, Sequence

from ctrace.inspector.features.fix.reduction.reduced_program import (
    Edit,
    at,
    blocks,
    holds_fast,
    is_anchor,
    is_pinned,
    numbered,
    on,
)

BlockPath = int
"""A block's number among all blocks of a tree, outer ones first."""


def block_paths(tree: ast.Module) -> list[BlockPath]:
    """Return the numbers of all blocks."""
    return list(range(sum(1 for _ in blocks(tree))))


def _block(tree: ast.Module, path: BlockPath) -> list[ast.stmt]:
    return next((block for number, block in enumerate(blocks(tree)) if number == path), [])


def droppable(tree: ast.Module, path: BlockPath) -> list[int]:
    """Return the positions of the statements in a block that may go."""
    found = [number for number, each in enumerate(_block(tree, path)) if not holds_fast(each)]
    return [] if _is_pass(_block(tree, path)) else found


def _is_pass(block: list[ast.stmt]) -> bool:
    return len(block) == 1 and isinstance(block[0], ast.Pass)


def dropping(path: BlockPath, positions: Sequence[int]) -> Edit:
    """Return an edit that drops statements of a block."""

    def edit(tree: ast.Module) -> bool:
        block = _block(tree, path)
        block[:] = [each for number, each in enumerate(block) if number not in positions]
        return bool(positions)

    return edit


def strip(tree: ast.Module) -> Iterator[Edit]:
    """Yield edits that drop docstrings, annotations and the return types of functions."""
    for number, node in numbered(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str())) if not is_anchor(node):
                yield on(number, _to_nothing)
            case ast.FunctionDef(returns=ast.expr()) | ast.AsyncFunctionDef(returns=ast.expr()):
                yield on(number, lambda each: _cleared(each, "returns"))
            case ast.arg(annotation=ast.expr()):
                yield on(number, lambda each: _cleared(each, "annotation"))
            case ast.AnnAssign(value=ast.expr()):
                yield _without_annotation(number)


def _to_nothing(node: ast.AST) -> bool:
    assert isinstance(node, ast.Expr)
    node.value = ast.Constant(...)
    return True


def _cleared(node: ast.AST, field: str) -> bool:
    setattr(node, field, None)
    return True


def _without_annotation(number: int) -> Edit:
    def edit(tree: ast.Module) -> bool:
        node = at(tree, number)
        assert isinstance(node, ast.AnnAssign)
        assert node.value is not None
        new = ast.Assign([node.target], node.value)
        return _replace(tree, node, [new])

    return edit


def _replace(tree: ast.Module, node: ast.stmt, new: Sequence[ast.stmt]) -> bool:
    from ctrace.inspector.features.fix.reduction.reduced_program import move_anchor

    for block in blocks(tree):
        for index, each in enumerate(block):
            if each is node:
                block[index : index + 1] = new
                if new:
                    move_anchor(node, new[0])
                return True
    return False


def unwrap(tree: ast.Module) -> Iterator[Edit]:
    """Yield edits that replace a block statement by one of its blocks, and edits that drop decorators and bases."""
    for number, node in numbered(tree):
        if not is_pinned(node):
            yield from _of_statement(number, node)


def _of_statement(number: int, node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.With | ast.If | ast.For | ast.While | ast.Try) and not is_anchor(node):
        for field in ("body", "orelse", "finalbody"):
            if getattr(node, field, None):
                yield _unwrapping(number, field)
    if isinstance(node, ast.Return | ast.Assign | ast.AugAssign) and node.value is not None:
        yield _to_expression(number)
    if isinstance(node, ast.If | ast.For | ast.While) and node.orelse:
        yield on(number, lambda each: _emptied(each, "orelse"))
    fields = ["decorator_list", "bases", "keywords"] if isinstance(node, ast.stmt) else []
    fields += ["items"] if isinstance(node, ast.With) and len(node.items) > 1 else []
    for field in fields:
        for index in range(len(getattr(node, field, ()))):
            yield on(number, lambda each, field=field, index=index: _without(each, field, index))  # type: ignore[misc]


def _to_expression(number: int) -> Edit:
    """Keep what a statement computes, and not what becomes of it."""

    def edit(tree: ast.Module) -> bool:
        node = at(tree, number)
        assert isinstance(node, ast.Return | ast.Assign | ast.AugAssign)
        return node.value is not None and _replace(tree, node, [ast.Expr(node.value)])

    return edit


def _unwrapping(number: int, field: str) -> Edit:
    def edit(tree: ast.Module) -> bool:
        node = at(tree, number)
        assert isinstance(node, ast.stmt)
        kept: list[ast.stmt] = getattr(node, field)
        return (holds_fast(node) <= any(map(holds_fast, kept))) and _replace(tree, node, kept)

    return edit


def _emptied(node: ast.AST, field: str) -> bool:
    if any(map(holds_fast, getattr(node, field))):
        return False
    setattr(node, field, [])
    return True


def _without(node: ast.AST, field: str, index: int) -> bool:
    del getattr(node, field)[index]
    return True


def unused(tree: ast.Module) -> Iterator[Edit]:
    """Yield an edit that drops all unused definitions, then edits that drop one name of an import."""
    yield drop_unused
    for number, node in numbered(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and len(node.names) > 1:
            for index, alias in enumerate(node.names):
                if (alias.asname or alias.name.partition(".")[0]) not in _read(tree):
                    yield on(number, lambda each, index=index: _without_alias(each, index))  # type: ignore[misc]


def _without_alias(node: ast.AST, index: int) -> bool:
    assert isinstance(node, ast.Import | ast.ImportFrom)
    del node.names[index]
    return True


def _read(tree: ast.AST) -> set[str]:
    """Return all names that are read, as names, attributes or strings."""
    found = set()
    for each in ast.walk(tree):
        match each:
            case ast.Name(id=name, ctx=ast.Load() | ast.Del()) | ast.Attribute(attr=name):
                found.add(name)
            case ast.Constant(value=str(name)) if name.isidentifier():
                found.add(name)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                found.update(names)
    return found


def drop_unused(tree: ast.Module) -> bool:
    """Drop every definition and import that nothing reads, in place; return whether there was one."""
    dropped = False
    while True:
        read = _read(tree)
        again = False
        for block in list(blocks(tree)):
            kept = [each for each in block if not _is_unused(each, read, is_top=block is tree.body)]
            if len(kept) < len(block):
                block[:] = kept
                again = dropped = True
        if not again:
            return dropped


def _is_unused(node: ast.stmt, read: set[str], *, is_top: bool) -> bool:
    if holds_fast(node):
        return False
    match node:
        case ast.Expr(value=ast.Constant()):
            return not is_anchor(node)
        case ast.FunctionDef(name=name, decorator_list=[]) | ast.ClassDef(name=name, decorator_list=[]) if is_top:
            return name not in read
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            bound = {alias.asname or alias.name.partition(".")[0] for alias in names}
            return not bound & read and "*" not in bound
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if is_top:
            return name not in read and not any(isinstance(each, ast.Call) for each in ast.walk(value))
    return False
