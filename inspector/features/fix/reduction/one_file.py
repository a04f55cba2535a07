"""Write a target and the local modules that it imports as one syntax tree."""

import ast
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.fix.reduction.program import first_line, innermost, set_anchor

_MOST_FILES = 60


class Place(Struct, frozen=True):
    """The line that shows the finding; `file` is empty if it is in a package."""

    file: str = ""
    line: int = 0
    column: int | None = None
    """Where in the line, for a line with several statements; None: not known."""
    is_function: bool = False
    """Whether the finding is about the whole function that has the line."""


class OneFile:
    """Joins files."""

    def __init__(self, folder: Path, place: Place) -> None:
        self._folder = folder.resolve()
        self._place = place
        self._done: set[Path] = set()
        self.modules: set[str] = set()
        """Local modules by name."""

    def of(self, path: Path, *, is_program: bool) -> ast.Module:
        """Return the tree of a file with its local modules.

        Raises:
            TargetError: a file cannot be read.
        """
        body = self._body(path.resolve(), is_program=is_program)
        tree = ast.Module(body, [])
        for node in ast.walk(tree):
            for name, value in ast.iter_fields(node):
                match value:
                    case ast.Attribute(value=ast.Name(id=module), attr=attribute) if module in self.modules:
                        setattr(node, name, ast.copy_location(ast.Name(attribute, value.ctx), value))
        return tree

    def _body(self, path: Path, *, is_program: bool) -> list[ast.stmt]:
        self._done.add(path)
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError) as error:
            raise TargetError(f"{path} cannot be read: {error}", "check the file") from None
        self._mark(tree, path)
        found: list[ast.stmt] = []
        for node in tree.body:
            if isinstance(node, ast.If) and _is_main_guard(node) and not is_program:
                continue
            if isinstance(node, ast.ImportFrom) and node.module == "__future__":
                continue
            found += self._statement(node, path)
        return found

    def _mark(self, tree: ast.Module, path: Path) -> None:
        if not self._place.file or path != Path(self._place.file).resolve():
            return
        node: ast.stmt | None = innermost(tree, self._place.line, self._place.column)
        if self._place.is_function:
            kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
            holders = [each for each in ast.walk(tree) if isinstance(each, kinds) and _has(each, self._place.line)]
            node = holders[-1] if holders else None
        if node is not None:
            set_anchor(node)

    def _statement(self, node: ast.stmt, path: Path) -> Iterator[ast.stmt]:
        match node:
            case ast.ImportFrom():
                yield from self._from(node, path)
            case ast.Import(names=names):
                for alias in names:
                    file = self._file(alias.name, path, 0)
                    if file is None:
                        yield ast.Import([alias])
                    else:
                        yield from self._new(file)
                        self.modules.add(alias.asname or alias.name)
            case _:
                yield node

    def _from(self, node: ast.ImportFrom, path: Path) -> Iterator[ast.stmt]:
        """Put a local module in the place of `from module import names`."""
        file = self._file(node.module or "", path, node.level)
        if file is None:
            if node.level == 0:
                yield node
            return
        yield from self._new(file)
        for alias in node.names:
            inner = self._file(f"{node.module}.{alias.name}" if node.module else alias.name, path, node.level)
            if inner is not None and inner != file:
                yield from self._new(inner)
                self.modules.add(alias.asname or alias.name)
            elif alias.asname and alias.asname != alias.name:
                yield ast.Assign([ast.Name(alias.asname, ast.Store())], ast.Name(alias.name))

    def _new(self, file: Path) -> list[ast.stmt]:
        """Return the statements of a file the first time."""
        is_new = file not in self._done and len(self._done) < _MOST_FILES
        return self._body(file, is_program=False) if is_new else []

    def _file(self, module: str, path: Path, level: int) -> Path | None:
        """Return the file of a local module."""
        base = path.parents[level - 1] if level else self._folder
        stem = base.joinpath(*[part for part in module.split(".") if part])
        for each in (stem.with_suffix(".py"), stem / "__init__.py"):
            if each.is_file() and "site-packages" not in each.parts:
                return each.resolve()
        return None


def _has(node: ast.stmt, line: int) -> bool:
    return first_line(node) <= line <= (node.end_lineno or node.lineno)


def _is_main_guard(node: ast.If) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "__name__" for each in ast.walk(node.test))
