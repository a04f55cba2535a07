"""Collect what a function needs of its module: imports, constants and other functions."""

import ast
from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from ctrace.inspector.features.workshop.triton_ops.reading import SourceFile

_WRITTEN = {"torch", "triton", "tl", "Tensor", "triton_op", "wrap_triton", "register_flop_formula"}
"""Names that every written module imports."""


class Needed(Struct):
    """The statements of a module that some names need, in the order of the file."""

    imports: dict[str, None] = field(default_factory=dict)
    statements: dict[int, str] = field(default_factory=dict)
    """Text of constants and functions, by line."""
    missing: dict[str, None] = field(default_factory=dict)
    """Names that the file binds in a way that cannot be copied."""


def needed_by(file: SourceFile, nodes: Iterable[ast.AST], without: Iterable[str]) -> Needed:
    """Return what the nodes need; `without` are names that the new module defines itself."""
    found, done = Needed(), {*without, *_WRITTEN}
    bound = _bound(file)
    todo = [name for node in nodes for name in free_names(node)]
    while todo:
        name = todo.pop(0)
        if name in done or name not in bound:
            continue
        done.add(name)
        statement = bound[name]
        match statement:
            case ast.Import() | ast.ImportFrom():
                found.imports[_import_of(statement, name)] = None
            case ast.FunctionDef():
                found.statements[statement.lineno] = file.whole(statement)
                todo.extend(free_names(statement))
            case ast.Assign(targets=[ast.Name()]) | ast.AnnAssign():
                found.statements[statement.lineno] = file.segment(statement)
                todo.extend(free_names(statement))
            case _:
                found.missing[name] = None
    return found


def _bound(file: SourceFile) -> dict[str, ast.stmt]:
    """Return the statement that binds each name of a module; of several, the first that is not under `except`."""
    found: dict[str, ast.stmt] = {}
    for statement in _statements(file.tree.body):
        for name in _names(statement):
            found.setdefault(name, statement)
    return found


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for each in body:
        yield each
        if isinstance(each, ast.If | ast.Try | ast.With):
            yield from _statements(each.body)
            yield from _statements(getattr(each, "orelse", []))


def _names(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.Import() | ast.ImportFrom():
            yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def _import_of(statement: ast.Import | ast.ImportFrom, name: str) -> str:
    for alias in statement.names:
        if (alias.asname or alias.name.partition(".")[0]) == name:
            named = f"{alias.name} as {alias.asname}" if alias.asname else alias.name
            if isinstance(statement, ast.Import):
                return f"import {named}"
            return f"from {'.' * statement.level}{statement.module or ''} import {named}"
    raise AssertionError(name)


def free_names(node: ast.AST) -> list[str]:
    """Return the names that a node reads, in order; some may be its own variables."""
    return list(dict.fromkeys(each.id for each in ast.walk(node) if isinstance(each, ast.Name)))
