"""Edit source text for trials; keep the number of lines, so that line numbers stay valid."""

import ast
from collections.abc import Iterable, Iterator, Sized

from ctrace.inspector.facts.trial import LineEdit, Trial
from ctrace.inspector.knowledge.counting import repeated
from ctrace.inspector.source.text import nodes_of, parsed

_LONG = 60
"""Code in a sentence of advice leaves room in a line of 80 columns for what to do with it."""
Change = tuple[ast.stmt | ast.expr, str]
"""A piece of the source, and its replacement."""


def line_edits(file: str, text: str, changes: Iterable[Change], *, needs: str = "") -> tuple[LineEdit, ...]:
    """Return the edits for all changes; empty if changes overlap, or if no line can take the import of `needs`. A piece
    that spans several lines leaves empty lines behind. `needs` is a module that the new text uses, such as `math`.
    """
    lines = text.split("\n")
    edited = dict(enumerate(lines, 1))
    last = (len(lines) + 1, 0)
    # From the end, so that the positions of the changes that are left stay valid.
    for node, new in sorted(changes, key=lambda change: _begin(change[0]), reverse=True):
        if _end(node) > last:
            return ()
        last = _begin(node)
        _replace(edited, node, new)
    if needs and not _imports(text, needs):
        place = _plain_import(text)
        if place is None:
            return ()
        # On the line of another import: a line of its own would move all below.
        edited[place] = f"{edited[place]}; import {needs}"
    changed = (number for number, line in enumerate(lines, 1) if edited[number] != line)
    return tuple(LineEdit(file, number, edited[number], lines[number - 1].strip()) for number in changed)


def trial_of(edits: tuple[LineEdit, ...]) -> Trial | None:
    """Return the trial that makes some edits; None without any, since it would be the run as it is."""
    if edits:
        return Trial(edits=edits)
    return None


def places_text(changes: Sized) -> str:
    """Write at how many places something changes, such as ` (3 places)`; empty for one."""
    return repeated(len(changes), " (", " places)")


def source_of(text: str, node: ast.AST) -> str:
    """Return the text of a node on one line."""
    return " ".join((ast.get_source_segment(text, node) or "").split())


def shortened(text: str) -> str:
    """Shorten an expression that is too long for a sentence."""
    if len(text) <= _LONG:
        return text
    return f"{text[: _LONG - 1]}…"


def is_disjoint(first: Iterable[LineEdit], second: Iterable[LineEdit]) -> bool:
    """Whether two changes can be combined: they edit different lines."""
    lines = {(edit.file, edit.line) for edit in first}
    return not any((edit.file, edit.line) in lines for edit in second)


def qualified_name(text: str, line: int) -> str:
    """Return the function or method around a line, such as `Experts.forward`; empty if there is none."""
    tree = parsed(text)
    kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    found = [node for node in nodes_of(tree) if isinstance(node, kinds) and covers(node, line)]
    is_function = bool(found) and not isinstance(found[-1], ast.ClassDef)
    if is_function:
        return ".".join(node.name for node in found)
    return ""


def functions_at(text: str, line: int) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the functions around a line, outermost first."""
    tree = parsed(text)
    functions = (node for node in nodes_of(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return [function for function in functions if covers(function, line)]


def nodes_around(text: str, line: int) -> Iterator[ast.AST]:
    """Walk the innermost function around a line; yield nothing if there is none."""
    for function in functions_at(text, line)[-1:]:
        yield from ast.walk(function)


def statement_at(text: str, line: int) -> ast.stmt | None:
    """Return the innermost statement at a line."""
    tree = parsed(text)
    found = [node for node in nodes_of(tree) if isinstance(node, ast.stmt) and covers(node, line)]
    # Fewest lines first; of statements on the same lines, such as `if x: y = 1`, the one that begins last is innermost.
    return min(found, key=lambda node: ((node.end_lineno or node.lineno) - node.lineno, -node.col_offset), default=None)


def covers(node: ast.stmt | ast.expr, line: int) -> bool:
    """Whether a node includes a line."""
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _begin(node: ast.stmt | ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.stmt | ast.expr) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def _replace(lines: dict[int, str], node: ast.stmt | ast.expr, new: str) -> None:
    """Replace a node's text; columns in `ast` are UTF-8 bytes. Text after a multi-line node moves to its first line."""
    (first, begin), (last, end) = _begin(node), _end(node)
    before, behind = lines[first].encode()[:begin].decode(), lines[last].encode()[end:].decode()
    for number in range(first, last + 1):
        lines[number] = ""
    lines[first] = f"{before}{new}{behind}"


def _imports(text: str, module: str) -> bool:
    return any(alias.name == module and alias.asname is None for node in _imports_of(text) for alias in node.names)


def _plain_import(text: str) -> int | None:
    """Return the line of an import statement after which another import fits on the same line."""
    lines = text.split("\n")
    ends = (node.lineno for node in _imports_of(text) if len(lines[node.lineno - 1].encode()) == node.end_col_offset)
    return next(ends, None)


def _imports_of(text: str) -> Iterator[ast.Import]:
    tree = parsed(text)
    if tree is None:
        return
    for node in tree.body:
        if isinstance(node, ast.Import) and node.lineno == node.end_lineno:
            yield node
