"""A candidate as a syntax tree, in which the statement that shows the finding stays marked while the rest changes.

The tree is of `ast`, not of the kit for repairs: a reduction copies and writes hundreds of candidates, whose layout
does not matter, in a quarter of the time (a fifteenth, with scopes), and a wrong guess of a name only costs a trial.
"""

import ast
import copy
import warnings
from collections.abc import Callable, Iterator

_ANCHOR = "_shows_finding"
_PINNED = "_is_pinned"
_MARK = "__anchor__"
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""Fields that hold statements, or parts that hold statements."""


class Program:
    """A program in plain Python; edits never change it, they return a copy."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.text = _unparsed(tree)

    @classmethod
    def parsed(cls, text: str, anchor: int | None = None) -> "Program":
        """Parse a text, and mark the innermost statement at the line `anchor`.

        Raises:
            SyntaxError: it is not Python.
        """
        tree = ast.parse(text)
        if anchor is not None and (found := innermost(tree, anchor)) is not None:
            set_anchor(found)
        return cls(tree)

    def edited(self, edit: "Edit") -> "Program | None":
        """Return a changed copy; None: the edit does not apply, or the result is no program."""
        tree = copy.deepcopy(self.tree)
        try:
            if not edit(tree):
                return None
            _fill_empty(tree)
            made = Program(ast.fix_missing_locations(tree))
            # ast.unparse writes what is no program: of an unwrapped loop, a `break` is left.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # such as a call of a string
                compile(made.text, "<candidate>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError):
            return None
        return made

    @property
    def anchor(self) -> ast.stmt | None:
        """Return the statement that shows the finding, if it is marked."""
        found = (each for each in ast.walk(self.tree) if isinstance(each, ast.stmt) and is_anchor(each))
        return next(found, None)

    @property
    def anchor_lines(self) -> tuple[int, ...]:
        """Return the lines of the marked statement's first line, decorators included; empty: nothing is marked."""
        # ast.unparse does not say which line a statement gets, so a marker stands in front of it.
        tree = copy.deepcopy(self.tree)
        for block in blocks(tree):
            for at, each in enumerate(block):
                if is_anchor(each):
                    block.insert(at, ast.Expr(ast.Name(_MARK)))
                    return _lines_at(_unparsed(ast.fix_missing_locations(tree)), self.text)
        return ()

    @property
    def weight(self) -> tuple[int, int, int]:
        """Return the size, of which every accepted edit leaves less: nodes, letters, then the sum of whole numbers."""
        nodes = list(ast.walk(self.tree))
        numbers = sum(abs(each.value) for each in nodes if isinstance(each, ast.Constant) and type(each.value) is int)
        return len(nodes), len(self.text), numbers

    @property
    def line_count(self) -> int:
        """Return how many lines are not empty."""
        return sum(bool(line.strip()) for line in self.text.splitlines())


Edit = Callable[[ast.Module], bool]
"""Changes a tree in place; False: it does not apply."""


def _unparsed(tree: ast.Module) -> str:
    return ast.unparse(tree) + "\n"


def _lines_at(marked: str, text: str) -> tuple[int, ...]:
    lines = text.splitlines()
    at = next(number for number, line in enumerate(marked.splitlines()) if line.strip() == _MARK)
    # ast.unparse writes an empty line before functions and classes.
    while at < len(lines) and not lines[at].strip():
        at += 1
    found = [at + 1]
    while at < len(lines) and lines[at].lstrip().startswith("@"):
        at += 1
        found.append(at + 1)
    return tuple(found)


def innermost(tree: ast.AST, line: int, column: int | None = None) -> ast.stmt | None:
    """Return the innermost statement that has a line; of several, the one with the column, or else the last."""
    found: ast.stmt | None = None
    for each in ast.walk(tree):
        if not isinstance(each, ast.stmt):
            continue
        has_line = first_line(each) <= line <= (each.end_lineno or each.lineno)
        if has_line and (column is None or _has_column(each, line, column)):
            found = each  # ast.walk goes from the outside to the inside
    if found is not None or column is None:
        return found
    return innermost(tree, line)


def _has_column(node: ast.stmt, line: int, column: int) -> bool:
    begins_before = node.lineno < line or node.col_offset <= column
    ends_after = (node.end_lineno or line) > line or (node.end_col_offset or 0) > column
    return begins_before and ends_after


def first_line(node: ast.stmt) -> int:
    """Return the first line of a statement, decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])


def set_anchor(node: ast.AST) -> None:
    """Mark the statement that shows the finding."""
    setattr(node, _ANCHOR, True)


def is_anchor(node: ast.AST) -> bool:
    """Whether a node is the statement that shows the finding."""
    return bool(getattr(node, _ANCHOR, False))


def pin(node: ast.AST) -> None:
    """Keep a statement whatever the reducer tries."""
    setattr(node, _PINNED, True)


def holds_fast(node: ast.AST) -> bool:
    """Whether a statement must stay: it shows the finding, is pinned, or contains such a statement."""
    return any(is_anchor(each) or getattr(each, _PINNED, False) for each in ast.walk(node))


def is_pinned(node: ast.AST) -> bool:
    """Whether a statement itself must stay as it is."""
    return bool(getattr(node, _PINNED, False))


def move_anchor(old: ast.AST, new: ast.AST) -> None:
    """Mark a statement that replaces a marked one."""
    if is_anchor(old):
        set_anchor(new)
    if is_pinned(old):
        pin(new)


def blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield every list of statements, outer ones first."""
    for node in ast.walk(tree):
        for name in BLOCKS:
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block


def loads(tree: ast.AST, name: str) -> int:
    """Count how often a name is read, as a name or as an attribute."""
    return sum(
        (isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Load))
        or (isinstance(each, ast.Attribute) and each.attr == name)
        for each in ast.walk(tree)
    )


def _fill_empty(tree: ast.AST) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case) and getattr(node, "body", None) == []:
            node.body = [ast.Pass()]  # type: ignore[union-attr]
        if isinstance(node, ast.Try | ast.TryStar) and not node.handlers and not node.finalbody:
            node.finalbody = [ast.Pass()]
        if isinstance(node, ast.Call):
            node.args = [part for each in node.args for part in _spread(each)]


def _spread(node: ast.expr) -> list[ast.expr]:
    """Write `*(a, b)` as `a, b`."""
    if isinstance(node, ast.Starred) and isinstance(node.value, ast.Tuple | ast.List):
        return list(node.value.elts)
    return [node]


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
