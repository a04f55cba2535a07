"""Find the line of the user's source that reads an environment variable, an attribute or a global."""

import ast
import linecache
import re
import sys
from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import Any

from ctrace.inspector.capture.comparing.world import ItemChange, World
from ctrace.inspector.capture.core.environment import library_prefixes
from ctrace.inspector.facts.findings import Owner
from ctrace.inspector.source.owners import owner_of

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_READER = re.compile(r"\bgetenvb?$|environb?\.(?:get|setdefault|__getitem__|__contains__)$")
_LAST_NAME = re.compile(r"([A-Za-z_]\w*)\W*$")

Place = tuple[str, int]


def place_of(change: ItemChange, world: World) -> Place | None:
    """Return where the changed value is read, or where an added or removed function is defined."""
    for value in (change.now, change.was):
        if isinstance(value, FunctionType):
            return value.__code__.co_filename, value.__code__.co_firstlineno
    reads = _environment_reads if change.container.kind == "environment" else _name_reads
    name = str(change.key) if change.container.kind == "environment" else _name(change)
    return next((place for file in _files(world) for place in reads(file, name)), None)


def _name(change: ItemChange) -> str:
    """Return the last name of the path: `scale` of `model.scale`, `TABLE` of `helper.TABLE['a']`."""
    if isinstance(change.key, str) and change.key.isidentifier() and change.container.item == ".{}":
        return change.key
    found = _LAST_NAME.search(change.container.path.partition(" of ")[0].partition("[")[0])
    if found:
        return found[1]
    return str(change.key)


def _files(world: World) -> list[str]:
    """List the source files of the modules with the model's code, the user's first."""
    modules = [path for kind, path in world.containers if kind == "global"]
    files = [getattr(sys.modules.get(name), "__file__", None) for name in modules]
    known = dict.fromkeys(str(file) for file in files if file is not None)
    return sorted(known, key=lambda file: owner_of(file, library_prefixes()) is not Owner.USER)


def _inside_functions(file: str) -> Iterator[ast.AST]:
    """Yield the code that runs when the model is called: methods first, since they hold most of it, then functions."""

    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    for root in (*classes, tree):
        for node in ast.walk(root):
            if isinstance(node, _FUNCTIONS) and getattr(node, "name", "") != "__init__":
                yield from ast.walk(node)


def _environment_reads(file: str, name: str) -> Iterator[Place]:
    """Yield reads of the named variable first, then reads of any environment variable."""
    nodes = list(_inside_functions(file))
    reads = [node for node in nodes if _reads_environment(node)]
    named = [node for node in reads if any(_is_constant(part, name) for part in ast.walk(node))]
    others = [node for node in reads if not any(isinstance(part, ast.Constant) for part in ast.walk(node))]
    # A read whose name is computed may be that of any variable.
    yield from _places(file, named or others)


def _reads_environment(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript):
        return isinstance(node.ctx, ast.Load) and "environ" in ast.unparse(node.value)
    if isinstance(node, ast.Call):
        return bool(_READER.search(ast.unparse(node.func)))
    return isinstance(node, ast.Compare) and "environ" in ast.unparse(node.comparators[-1])


def _is_constant(node: ast.AST, value: Any) -> bool:
    return isinstance(node, ast.Constant) and node.value == value


def _name_reads(file: str, name: str) -> Iterator[Place]:
    yield from _places(file, [node for node in _inside_functions(file) if _reads_name(node, name)])


def _reads_name(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == name and isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.Name):
        return node.id == name and isinstance(node.ctx, ast.Load)
    is_getattr = isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr")
    return is_getattr and any(_is_constant(part, name) for part in ast.walk(node))


def _places(file: str, nodes: Iterable[ast.AST]) -> Iterator[Place]:
    for node in nodes:
        yield file, int(getattr(node, "lineno", 1))
