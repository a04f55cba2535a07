"""What a line of source is, whatever its number and layout: the qualified name around it, and the statement's text."""

import ast
import builtins
from collections.abc import Iterator, Mapping
from functools import lru_cache

_Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_Compound = (
    ast.If | ast.For | ast.AsyncFor | ast.While | ast.With | ast.AsyncWith | ast.Try | ast.TryStar | ast.Match | _Named
)


def qualified_name(listings: Mapping[str, str], file: str, line: int, otherwise: str) -> str:
    """Name the function around a line, as `Class.method`; `otherwise` where the source is not known or has none."""
    names = [node.name for node in _around(listings.get(file, ""), line) if isinstance(node, _Named)]
    return ".".join(names) or otherwise


def statement(listings: Mapping[str, str], file: str, line: int, otherwise: str) -> str:
    """Write the statement at a line in one spelling, of a compound one its head; `otherwise` where it is not known."""
    nodes = [node for node in _around(listings.get(file, ""), line) if isinstance(node, ast.stmt)]
    return _head(nodes[-1]) if nodes else " ".join(otherwise.split())


def put_aside_names(text: str) -> str:
    """Write a statement's text with its names numbered, so that renaming them changes nothing; attributes stay."""
    try:
        tree = ast.parse(f"{text}\n    pass" if text.endswith(":") else text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not hasattr(builtins, node.id):
            node.id = names.setdefault(node.id, f"v{len(names)}")
    return ast.unparse(tree)


def _head(node: ast.stmt) -> str:
    if not isinstance(node, _Compound):
        return " ".join(ast.unparse(node).split())
    if isinstance(node, _Named):
        return f"{'class' if isinstance(node, ast.ClassDef) else 'def'} {node.name}"
    return ast.unparse(node).partition("\n")[0]


def _around(source: str, line: int) -> Iterator[ast.AST]:
    """Give the nodes that span a line, outermost first; each is within the one before."""
    tree: ast.AST | None = _parsed(source)
    while tree is not None:
        tree = next((node for node in _children(tree) if node.lineno <= line <= (node.end_lineno or 0)), None)
        if tree is not None:
            yield tree


def _children(node: ast.AST) -> Iterator[ast.stmt]:
    """Give the statements right below a node; those in handlers and cases among them."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            yield from _children(child)


@lru_cache(maxsize=64)
def _parsed(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])
