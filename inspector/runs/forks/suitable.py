"""Decide whether a capture may be a fork of a process that has imported torch before the user's code ran.

It may if nothing can show the difference. The user's files are read, never run: before they import torch, they may only
import, define functions and assign constants; and nowhere may they change environment variables or parts of torch,
because a new process would import much of torch after that. In doubt, the answer is a new process. What the files do
not show, such as a library that sets a variable, the fork notices itself; see `capture/calls/start.py`.
"""

import ast
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from ctrace.inspector.runs.request import CaptureRequest

_VARIABLES = ("environ", "environb", "putenv", "unsetenv")
_OPTIONS = ("config", "backends")
"""Parts of torch's names that mark an option: setting one is the same before and after other imports."""
_MOST_FILES = 500


class _DoubtError(Exception):
    """A capture may differ in a fork; the message says why."""


def why_new_process(request: CaptureRequest) -> str:
    """Return why a capture needs a new process; empty if a fork will do."""
    options = request.options
    is_program = request.kind != "model"
    if is_program and request.trial is None:
        return "it is a program"
    # A program chooses its backend itself; what a trial of one counts is Dynamo's, whatever that backend is.
    is_more = options.build or not (options.trace_only or is_program)
    if options.target is not None or (is_more and request.proof is None):
        return "it does more than capture graphs"
    try:
        _Reading(request).check()
    except _DoubtError as doubt:
        return str(doubt)
    return ""


class _Reading:
    """Reads a model's file and the files beside it that it imports."""

    def __init__(self, request: CaptureRequest) -> None:
        self._request = request
        path = request.path
        self._folder = Path.cwd() if path is None else Path(path).resolve().parent
        self._imports_torch: dict[Path, bool] = {}

    def check(self) -> None:
        """Raise the doubt, if there is one.

        Raises:
            _DoubtError: the capture may differ in a fork.
        """
        path, module = self._request.path, self._request.module
        found = self._file(Path(path)) if path is not None else self._module(str(module))
        if not found:
            raise _DoubtError(f"{path or module} does not import torch in a plain statement")

    def _file(self, path: Path) -> bool:
        """Read a file; return whether importing it certainly imports torch."""
        real = path.resolve()
        if real in self._imports_torch:
            return self._imports_torch[real]
        self._imports_torch[real] = False  # while it is read: an import in a circle adds nothing
        if len(self._imports_torch) > _MOST_FILES:
            raise _DoubtError(f"more than {_MOST_FILES} files belong to it")
        try:
            tree = ast.parse(path.read_bytes(), str(path))
        except (OSError, ValueError, SyntaxError) as error:
            raise _DoubtError(f"{path} cannot be read") from error
        for node in ast.walk(tree):
            _refuse_change(node, path)
        _refuse_variables(tree, path)
        has_torch = False
        for statement in tree.body:
            has_torch = has_torch or self._statement(statement, path)
        for node in ast.walk(tree):  # those in functions, which run later
            for name in _imported(node, path, self._folder):
                self._module(name)
        self._imports_torch[real] = has_torch
        return has_torch

    def _statement(self, node: ast.stmt, path: Path) -> bool:
        """Check a statement that runs before torch is imported; return whether it imports torch."""
        match node:
            case ast.Import() | ast.ImportFrom():
                found = [self._module(name) for name in _imported(node, path, self._folder)]
                return any(found)
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                return False
            case ast.FunctionDef(args=args, decorator_list=[]) if not _calls(args):
                return False
            case ast.Assign(targets=[ast.Name()], value=value) if _is_constant(value):
                return False
            case ast.AnnAssign(target=ast.Name(), value=value) if value is None or _is_constant(value):
                return False
            case ast.Try(body=body, handlers=handlers, orelse=[], finalbody=[]):
                inner = [*body, *(each for handler in handlers for each in handler.body)]
                found = [self._statement(each, path) for each in inner]
                return all(found)
            case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"), orelse=[]):
                return False
        raise _DoubtError(f"{path}, line {node.lineno}, runs code before torch is imported")

    def _module(self, name: str) -> bool:
        """Read a module of the user's; return whether importing it certainly imports torch."""
        if name.partition(".")[0] == "torch":
            return True
        found = [self._file(path) for path in _files(name, self._folder)]
        return any(found)


def _calls(node: ast.AST) -> bool:
    """Whether evaluating a node, such as the defaults of a function, calls something."""
    return any(isinstance(each, ast.Call) for each in ast.walk(node))


def _is_constant(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def _imported(node: ast.AST, path: Path, top: Path) -> Iterator[str]:
    """Yield the modules that a statement may import."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=module, names=names, level=level):
            package = _package(path, top, level)
            base = ".".join(each for each in (package, module or "") if each)
            if base:
                yield base
            yield from (f"{base}.{alias.name}" if base else alias.name for alias in names)


def _package(path: Path, top: Path, level: int) -> str:
    """Return the package that a relative import starts from; empty for an absolute import."""
    if not level:
        return ""
    folder = path.resolve().parents[level - 1]
    if not folder.is_relative_to(top.resolve()):
        raise _DoubtError(f"{path} imports relative to a folder outside of {top}")
    return ".".join(folder.relative_to(top.resolve()).parts)


def _files(name: str, folder: Path) -> Iterator[Path]:
    """Yield the files below a folder that an import of a module runs, without running them."""
    places: Sequence[str] | None = [str(folder)]
    for part in name.split("."):
        spec = PathFinder.find_spec(part, places) if places else None
        if spec is None:
            return
        if spec.origin is not None and spec.has_location:
            if not spec.origin.endswith(".py"):
                raise _DoubtError(f"{spec.origin} is not Python source")
            yield Path(spec.origin)
        places = spec.submodule_search_locations


def _refuse_change(node: ast.AST, path: Path) -> None:
    """Refuse an assignment to a part of torch that is not an option.

    Raises:
        _DoubtError: it is one.
    """
    targets: list[ast.expr] = []
    match node:
        case ast.Assign(targets=found):
            targets = found
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            targets = [target]
    for each in targets:
        names = _dotted(each)
        if names[:1] == ["torch"] and len(names) > 1 and not set(names).intersection(_OPTIONS):
            raise _DoubtError(f"{path}, line {each.lineno}, replaces {'.'.join(names)}")


def _dotted(node: ast.expr) -> list[str]:
    match node:
        case ast.Name(id=name):
            return [name]
        case ast.Attribute(value=value, attr=attr):
            before = _dotted(value)
            return [*before, attr] if before else []
    return []


def _refuse_variables(tree: ast.AST, path: Path) -> None:
    """Refuse a file that may change environment variables.

    Raises:
        _DoubtError: it may.
    """
    reads = {id(node) for each in ast.walk(tree) for node in _read_only(each)}
    for node in ast.walk(tree):
        if id(node) not in reads and _names_variables(node):
            raise _DoubtError(f"{path}, line {getattr(node, 'lineno', 0)}, may change environment variables")


def _read_only(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the uses of the environment that only read it."""
    match node:
        case ast.Subscript(value=value, ctx=ast.Load()) | ast.Call(func=ast.Attribute(value=value, attr="get")):
            yield value
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[value]):
            yield value


def _names_variables(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in _VARIABLES
        case ast.ImportFrom(module="os", names=names):
            return any(alias.name in _VARIABLES and alias.asname for alias in names)
    return False
