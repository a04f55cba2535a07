"""Drop definitions and imports that nothing uses; most of it needs no search."""

import ast
from collections.abc import Iterator

from ctrace.inspector.features.fix.reduction.reduce_nodes import numbered, on
from ctrace.inspector.features.fix.reduction.reduced_program import Edit, blocks, holds_fast, is_anchor


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
