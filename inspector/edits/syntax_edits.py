"""Replace nodes of a file by new source, and keep every comment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import libcst as cst
import libcst.matchers as m

from ctrace.inspector.edits.eager_only import guarded
from ctrace.inspector.edits.syntax_code import ParsedFile, walk

_DOCSTRING = m.SimpleStatementLine(
    body=[m.Expr(value=m.SimpleString() | m.ConcatenatedString()), m.ZeroOrMore(m.DoNotCare())]
)


class Edits:
    """Changes of one file, applied together."""

    def __init__(self, code: ParsedFile) -> None:
        self._code = code
        self._new: dict[cst.CSTNode, Sequence[cst.CSTNode]] = {}
        self._above: dict[cst.CSTNode, list[cst.EmptyLine]] = {}
        self._removed: list[cst.BaseStatement] = []
        self._imports: list[str] = []

    def expression(self, node: cst.CSTNode, text: str) -> None:
        """Replace an expression; the new one gets parentheses where it would bind otherwise."""
        new: Any = cst.parse_expression(text, self._code.module.config_for_parsing)
        old = cast("Any", node)
        # Parentheses that are there may hold line breaks, so they stay.
        if old.lpar and not new.lpar and not isinstance(new, _atoms()):
            new = new.with_changes(lpar=old.lpar, rpar=old.rpar)
        elif not new.lpar and not isinstance(new, _atoms()) and not isinstance(self._code.parent(node), _roomy()):
            new = new.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        self._new[node] = (new,)

    def statement(self, node: cst.BaseStatement, text: str) -> None:
        """Replace a statement by others; comments that the new statements lack move above them."""
        new = statements(self._code, text)
        self._new[node] = new
        kept = {one.value for part in new for one in _comments(part)}
        self._above[node] = [*_leading(node), *_lines(one for one in _inner(node) if one.value not in kept)]

    def in_eager(self, node: cst.SimpleStatementLine, torch: str) -> None:
        """Let compiled code leave a statement out; `torch` is the module's name in the file."""
        bare = self._code.text(node.with_changes(leading_lines=[])).strip()
        self.statement(node, guarded(torch, bare))

    def before(self, node: cst.BaseStatement, text: str) -> None:
        """Insert statements before one."""
        self._new[node] = (*statements(self._code, text), *self._new.get(node, (node,)))

    def after(self, node: cst.BaseStatement, text: str) -> None:
        """Insert statements after one."""
        self._new[node] = (*self._new.get(node, (node,)), *statements(self._code, text))

    def remove(self, node: cst.BaseStatement) -> None:
        """Remove a statement; its comments stay. If it is alone in its block, `pass` takes its place."""
        if len(self._code.block(node)) == 1:
            self.statement(node, "pass")
            return
        self._new[node] = ()
        self._removed.append(node)

    def needs_import(self, statement: str) -> None:
        """Import something at module level, after the imports that are there."""
        if statement not in self._imports:
            self._imports.append(statement)

    def apply(self) -> str:
        """Return the new text of the file."""
        for text in self._imports:
            self._import(text)
        # From the last, so that comments of consecutive statements end up in their order.
        for node in reversed(self._removed):
            self._keep_comments(node)
        replacements, above = self._new, self._above

        class Apply(cst.CSTTransformer):
            def on_leave(self, original_node: Any, updated_node: Any) -> Any:
                new = replacements.get(original_node)
                if original_node in above:
                    whole: Sequence[cst.CSTNode] = (original_node,)
                    if new is not None:
                        whole = new
                    changed = [updated_node if one is original_node else one for one in whole]
                    changed[0] = changed[0].with_changes(leading_lines=above[original_node])
                    return cst.FlattenSentinel(changed)
                if new is None:
                    return updated_node
                if not isinstance(original_node, cst.BaseStatement):
                    return new[0]
                return cst.FlattenSentinel([updated_node if one is original_node else one for one in new])

        return f"{self._code.mark}{self._code.module.visit(Apply()).code}"

    def _keep_comments(self, node: cst.BaseStatement) -> None:
        """Move the comments of a removed statement above the next one that stays."""
        comments = [*_leading(node), *_lines(_inner(node))]
        following = next((one for one in self._code.after(node) if self._new.get(one) != ()), None)
        if following is not None and any(line.comment for line in comments):
            self._above[following] = [*comments, *self._above.get(following, _leading(following))]

    def _import(self, text: str) -> None:
        body = list(self._code.module.body)
        last = _last_import(body)
        if last is not None:
            self.after(cast("cst.BaseStatement", body[last]), text)
            return
        first = next((one for one in body if not _is_docstring(one)), None)
        if first is not None:
            self.before(cast("cst.BaseStatement", first), text)


def _leading(node: cst.CSTNode) -> list[cst.EmptyLine]:
    """Return the lines above a statement."""
    return list(getattr(node, "leading_lines", ()))


def _comments(node: cst.CSTNode) -> Iterator[cst.Comment]:
    return (one for one in walk(node) if isinstance(one, cst.Comment))


def _inner(node: cst.CSTNode) -> list[cst.Comment]:
    """Return the comments of a statement, without those above it."""
    above = {id(comment) for line in _leading(node) for comment in _comments(line)}
    return [one for one in _comments(node) if id(one) not in above]


def _lines(comments: Iterable[cst.Comment]) -> list[cst.EmptyLine]:
    return [cst.EmptyLine(comment=cst.Comment(one.value)) for one in comments]


def _atoms() -> tuple[type[cst.CSTNode], ...]:
    """Return the expressions that bind tightest."""
    return (cst.Call, cst.Name, cst.Attribute, cst.Subscript, cst.Integer, cst.Float, cst.List, cst.SimpleString)


def _roomy() -> tuple[type[cst.CSTNode], ...]:
    """Return the places where an expression needs no parentheses."""
    return (
        cst.Arg,
        cst.Assign,
        cst.AnnAssign,
        cst.AugAssign,
        cst.Return,
        cst.Expr,
        cst.If,
        cst.While,
        cst.Assert,
        cst.WithItem,
    )


def statements(code: ParsedFile, text: str) -> list[cst.BaseStatement]:
    """Parse statements, written with four spaces for each indent, in the file's own indentation."""
    indent = code.module.default_indent
    lines = []
    for line in text.split("\n"):
        bare = line.lstrip(" ")
        depth, rest = divmod(len(line) - len(bare), 4)
        lines.append(indent * depth + " " * rest + bare)
    new = cst.parse_module("\n".join(lines) + "\n", code.module.config_for_parsing)
    return [cast("cst.BaseStatement", one) for one in new.body]


def _is_docstring(node: cst.CSTNode) -> bool:
    return m.matches(node, _DOCSTRING)


def _last_import(body: Sequence[cst.CSTNode]) -> int | None:
    """Return the index of the last import in the block of imports at the top of a file."""
    last = None
    for index, node in enumerate(body):
        if not isinstance(node, cst.SimpleStatementLine):
            break
        if isinstance(node.body[0], cst.Import | cst.ImportFrom):
            last = index
        elif not _is_docstring(node):
            break
    return last
