"""Decide whether a capture may run in a fork of a process that has imported torch before the user's code.

It may if the program cannot observe the difference. This module parses the user's files and never runs them. Before
they import torch, they may only import, define functions and assign constants. They may not change environment
variables or parts of torch anywhere, because a new process would import much of torch after such a change. In doubt,
the capture runs in a new process. The fork itself detects what the files do not show, such as a library that sets a
variable; see `capture/calls/start.py`.
"""

import ast
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from ctrace.inspector.runs.capture_request import CaptureRequest

_VARIABLES = ("environ", "environb", "putenv", "unsetenv")
_OPTIONS = ("config", "backends")
"""Parts of names in torch that mean options; a program may set an option before or after other imports of torch."""
# Each file is parsed. Beyond these, deciding would take longer than a fork saves.
_MOST_FILES = 500


class _DoubtError(Exception):
    """The capture may differ in a fork; the message says why."""


def why_new_process(request: CaptureRequest, *, lowers: bool = False) -> str:
    """Return why a capture needs a new process; empty if it may run in a fork.

    With `lowers`, a fork may run Inductor, too: for captures that are compared with each other, not with the user's own
    process, in which Inductor was not imported after the model.
    """
    options = request.options
    is_program = request.kind != "model"
    if is_program and request.trial is None:
        return "it is a program"
    # A program chooses its backend itself; what a trial of one counts is Dynamo's, whatever that backend is.
    is_more = options.build or not (lowers or options.trace_only or is_program)
    if options.gpu is not None or (is_more and request.proof is None):
        return "it does more than capture graphs"
    try:
        _Reading(request).check()
    except _DoubtError as doubt:
        return str(doubt)
    return ""


class _Reading:
    """Checks a model's file, and the files beside it that it imports."""

    def __init__(self, request: CaptureRequest) -> None:
        self._request = request
        path = request.path
        if path is None:
            self._folder = Path.cwd()
        else:
            self._folder = Path(path).resolve().parent
        self._imports_torch: dict[Path, bool] = {}

    def check(self) -> None:
        """Check all files.

        Raises:
            _DoubtError: the capture may differ in a fork.
        """
        path, module = self._request.path, self._request.module
        if path is not None:
            found = self._file(Path(path))
        else:
            found = self._module(str(module))
        if not found:
            raise _DoubtError(f"{path or module} does not import torch in a plain statement")

    def _file(self, path: Path) -> bool:
        """Check a file; return whether an import of the file certainly imports torch."""
        real = path.resolve()
        if real in self._imports_torch:
            return self._imports_torch[real]
        self._imports_torch[real] = False  # for circular imports: a file that is still being read adds nothing
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
            # In order: once torch is imported, what follows finds the same state in a fork.
            has_torch = has_torch or self._statement(statement, path)
        for node in ast.walk(tree):  # imports in functions, which run later
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
                # Either branch may run, so torch is imported for certain only if every statement imports it.
                return all(found)
            case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"), orelse=[]):
                return False
        raise _DoubtError(f"{path}, line {node.lineno}, runs code before torch is imported")

    def _module(self, name: str) -> bool:
        """Check a module in the user's folder; return whether an import of the module certainly imports torch."""
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
            # `from pkg import name` may import the module `pkg.name`, or take a name from `pkg`.
            yield from (f"{base}.{alias.name}" if base else alias.name for alias in names)


def _package(path: Path, top: Path, level: int) -> str:
    """Return the package at which a relative import starts; empty for an absolute import."""
    if not level:
        return ""
    folder = path.resolve().parents[level - 1]
    if not folder.is_relative_to(top.resolve()):
        raise _DoubtError(f"{path} imports relative to a folder outside of {top}")
    return ".".join(folder.relative_to(top.resolve()).parts)


def _files(name: str, folder: Path) -> Iterator[Path]:
    """Find the files below a folder that an import of a module would run, without running them."""
    places: Sequence[str] | None = [str(folder)]
    for part in name.split("."):
        spec = None
        if places:
            spec = PathFinder.find_spec(part, places)
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
        _DoubtError: the node is such an assignment.
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
            if not before:
                return []
            return [*before, attr]
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
    """Yield the nodes that use the environment, but only read it."""
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
