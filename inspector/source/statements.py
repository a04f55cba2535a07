"""Identify a source line independently of its number and layout: by its qualified name and its statement."""

import ast
import builtins
import copy
from collections.abc import Iterator, Mapping

from ctrace.inspector.source.text import as_program, parsed

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Named = _Function | ast.ClassDef
_BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")

Span = tuple[int, int] | None
"""Columns of a line without its indentation; see `findings.Frame.span`."""


def qualified_name(listings: Mapping[str, str], file: str, line: int, otherwise: str) -> str:
    """Return the function around a line, as `Class.method`; `otherwise` if it is not known or there is none."""
    names = [node.name for node in _around(listings.get(file, ""), line) if isinstance(node, _Named)]
    return ".".join(names) or otherwise


def statement(listings: Mapping[str, str], file: str, line: int, otherwise: str, span: Span = None) -> str:
    """Return the normalized statement at a line and columns; for a compound statement, its head.

    Without the file's source, return `otherwise`, the text of the line.
    """
    node = _statement(listings.get(file, ""), line, span) or _alone(otherwise)
    try:
        return " ".join((_head(node) if node else otherwise).split())
    except RecursionError:
        return " ".join(otherwise.split())


def start_of(listings: Mapping[str, str], file: str, line: int, span: Span = None) -> tuple[int, int]:
    """Return the line and column at which the statement at a line begins; column 0 of that line if not known."""
    node = _statement(listings.get(file, ""), line, span)
    if node:
        return (node.lineno, node.col_offset)
    return (line, 0)


def put_aside_names(text: str) -> str:
    """Return a statement's expression with numbered names, so that renaming does not change it.

    Attributes and builtins keep their names. Omit the assignment or `return` around the expression: code that moves
    into a separate function returns what it assigned before.
    """
    if text.startswith(("def ", "class ")):
        return text.partition(" ")[0]
    node = _alone(text)
    if node is None:
        return text
    try:
        return ast.unparse(_numbered(copy.deepcopy(_value(node))))
    except RecursionError:
        return text


def put_aside_roots(text: str) -> str:
    """Return comma-separated values without the variable, or its item, from which code reads them.

    `self.calls`, `given[0].calls` and `named["model"].calls` become equal, so that a wrapper that takes `*given`
    changes nothing.
    """
    node = _alone(text)
    if not isinstance(node, ast.Expr):
        return text
    if isinstance(node.value, ast.Tuple):
        values = node.value.elts
    else:
        values = [node.value]
    try:
        return ", ".join(sorted(ast.unparse(_numbered(_Roots().visit(copy.deepcopy(value)))) for value in values))
    except RecursionError:
        return text


class _Roots(ast.NodeTransformer):
    """Replaces an item of a name with the name."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        is_item = isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Constant)
        if is_item:
            return node.value
        return node


def _numbered(tree: ast.AST) -> ast.AST:
    names: dict[str, str] = {}
    for each in ast.walk(tree):
        # A builtin is no name of the author's, who cannot have renamed it.
        if isinstance(each, ast.Name) and not hasattr(builtins, each.id):
            each.id = names.setdefault(each.id, f"v{len(names)}")
        elif isinstance(each, ast.arg):
            each.arg = names.setdefault(each.arg, f"v{len(names)}")
    return tree


def _value(node: ast.stmt) -> ast.AST:
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Return | ast.Expr) and node.value:
        return node.value
    return node


def _head(node: ast.stmt) -> str:
    if isinstance(node, _Named):
        return f"{'class' if isinstance(node, ast.ClassDef) else 'def'} {node.name}"
    bare = copy.copy(node)
    for block in _BLOCKS:
        if hasattr(bare, block):
            setattr(bare, block, [])
    return ast.unparse(bare)


def _alone(text: str) -> ast.stmt | None:
    """Parse a single line, which may be the head of a block."""
    tree = parsed(as_program(text))
    if tree is not None and len(tree.body) == 1:
        return tree.body[0]
    return None


def _statement(source: str, line: int, span: Span) -> ast.stmt | None:
    """Find the innermost statement on a line; if there are several, find the one that contains the columns."""
    # Torch's columns may fit no statement, as in a file that was changed since: then the line has to do.
    nodes = list(_around(source, line, _column(source, line, span))) or list(_around(source, line))
    if not nodes:
        return None
    return nodes[-1]


def _column(source: str, line: int, span: Span) -> int | None:
    """Convert the first column to the UTF-8 offset that `ast` uses."""
    lines = source.split("\n")
    if span is None or not 0 < line <= len(lines):
        return None
    text = lines[line - 1]
    indent = len(text) - len(text.lstrip())
    at = indent + span[0]
    if at < len(text):
        return len(text[:at].encode("utf-8", "replace"))
    return None


def _around(source: str, line: int, column: int | None = None) -> Iterator[ast.stmt]:
    """Yield the statements that span a line, outermost first."""
    inner: ast.AST | None = parsed(source)
    while inner is not None:
        node = next((each for each in _children(inner) if _spans(each, line, column)), None)
        if node is not None:
            yield node
        inner = node


def _spans(node: ast.stmt, line: int, column: int | None) -> bool:
    """Whether a statement with its decorators contains a place."""
    decorators: list[ast.expr] = []
    if isinstance(node, _Named):
        decorators = node.decorator_list
    # Python counts a decorator as a line of its function.
    first = min([node.lineno, *(each.lineno for each in decorators)])
    last = node.end_lineno or node.lineno
    if column is None or not first <= line <= last:
        return first <= line <= last
    begins = line > first or node.col_offset <= column
    return begins and (line < last or column < (node.end_col_offset or 0))


def _children(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements directly below a node, including those in handlers and cases."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            yield from _children(child)
