"""Where model files are edited, and how: what all edits are made of.

All models of `models/` have the same shape, and every edit is made at places that this shape gives; no edit knows a
model. The *own* class is the last one with a `forward`. The *spot* is the first statement there that gives a name to a
tensor, called T below. There is a loop over `self.layers`, and a helper function at the top of the file.
"""

import ast
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass

Files = dict[str, str]
"""Sources by file name; the first is the model's."""


@dataclass(frozen=True)
class Edit:
    """A change of one model file."""

    name: str
    of: Callable[[str, str], Files]
    """Returns the files that replace one, given its name and source."""
    shows: frozenset[str] = frozenset()
    """Kinds of sites of which a check has to show one; empty: the edit is harmless."""


@dataclass(frozen=True)
class Shape:
    """What all models have: where their edits are made."""

    source: str
    tree: ast.Module

    @property
    def own(self) -> ast.ClassDef:
        return [node for node in self.tree.body if isinstance(node, ast.ClassDef) and method(node, "forward")][-1]

    @property
    def forward(self) -> ast.FunctionDef:
        return method(self.own, "forward")[0]

    @property
    def spot(self) -> ast.Assign:
        return next(node for node in self.forward.body if isinstance(node, ast.Assign))

    @property
    def tensor(self) -> str:
        return ast.unparse(self.spot.targets[0])

    @property
    def loop(self) -> ast.For:
        loops = (node for node in self.forward.body if isinstance(node, ast.For))
        return next(node for node in loops if ast.unparse(node.iter) == "self.layers")

    @property
    def helper(self) -> ast.FunctionDef:
        return next(node for node in self.tree.body if isinstance(node, ast.FunctionDef))


def shape_of(source: str) -> Shape:
    """Read a model file."""
    return Shape(source, ast.parse(source))


def method(node: ast.ClassDef, name: str) -> list[ast.FunctionDef]:
    return [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == name]


# Ways to change a text


def of_text(change: Callable[[Shape], str]) -> Callable[[str, str], Files]:
    return lambda name, source: {name: change(shape_of(source))}


def with_lines(source: str, added: dict[int, str]) -> str:
    """Put text below lines, by their numbers from 1; 0 is the top."""
    lines = source.splitlines(keepends=True)
    for after in sorted(added, reverse=True):
        lines.insert(after, added[after])
    return "".join(lines)


def indented(text: str, like: ast.stmt) -> str:
    return textwrap.indent(textwrap.dedent(text).strip("\n") + "\n", " " * like.col_offset)


def _naming(text: str, tensor: str) -> str:
    return re.sub(r"\bT\b", tensor, text)


def last_import(shape: Shape) -> int:
    imports = [node for node in shape.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    return imports[-1].end_lineno or 0


def inserted(body: str, *, top: str = "", init: str = "", at: str = "spot") -> Callable[[str, str], Files]:
    """Put statements below the spot, or into the loop or the helper; and what they need."""

    def change(shape: Shape) -> str:
        spots = {"spot": shape.spot, "loop": shape.loop.body[-1], "helper": shape.helper.body[0]}
        tensor = shape.helper.args.args[0].arg if at == "helper" else shape.tensor
        added = {spots[at].end_lineno or 0: indented(_naming(body, tensor), spots[at])}
        if top:
            added[last_import(shape)] = "\n" + textwrap.dedent(top).strip("\n") + "\n"
        if init:
            begun = method(shape.own, "__init__")[0].body[0]
            added[begun.end_lineno or 0] = indented(init, begun)
        return with_lines(shape.source, added)

    return of_text(change)


def unparsed(tree: ast.Module) -> str:
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


class Renamed(ast.NodeTransformer):
    """Renames a variable, an argument and, if asked for, keywords and texts of that name."""

    def __init__(self, was: str, now: str, *, keywords: bool = False) -> None:
        self._was, self._now, self._keywords = was, now, keywords

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self._now if node.id == self._was else node.id
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg = self._now if node.arg == self._was else node.arg
        self.generic_visit(node)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.name = self._now if node.name == self._was else node.name
        self.generic_visit(node)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        node.name = self._now if node.name == self._was else node.name
        self.generic_visit(node)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.Constant(self._now) if self._keywords and node.value == self._was else node
