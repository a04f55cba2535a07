"""Resolve what the user typed to a target. Files are parsed here, never executed."""

import ast
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from ctrace.inspector.errors import TargetError, nearest
from ctrace.inspector.features.doors import require
from ctrace.inspector.log.files import is_log


class ModelTarget(Struct, frozen=True):
    """An object to compile and call: `name` in a file or in a module, by default `model`."""

    path: Path | None
    module: str | None
    name: str | None


class ProgramTarget(Struct, frozen=True):
    """A program to run and watch: a file, or a module for `python -m`."""

    path: Path | None
    module: str | None
    args: tuple[str, ...]
    typed: str | None = None
    """The path as typed, such as `./train.py`; None if it equals `path`."""


Resolved = ModelTarget | ProgramTarget
FOLDER = "hf:"
"""What precedes a local folder of transformers."""


def resolve(text: str, args: Sequence[str] = (), *, has_inputs: bool = False) -> Resolved:
    """Resolve a target for `ctrace explain`.

    A file that defines `model` is a model file, unless it calls `torch.compile` and defines no inputs. Every other file
    that calls `torch.compile` is a program.

    Raises:
        TargetError: there is no such file, it does not parse, or it has nothing to explain.
    """
    if text.startswith(FOLDER):
        _refuse_args(text, args)
        return _folder(text.removeprefix(FOLDER))
    path, name = _split(text)
    if path is None:
        module, _, name = text.partition(":")
        _refuse_args(text, args)
        return ModelTarget(None, module, name)
    tree = _parse(path)
    if name is not None:
        _refuse_args(text, args)
        return ModelTarget(path, None, name)
    names = set(_top_level_names(tree))
    compiles = any(_is_compile(node) for node in ast.walk(tree))
    if "model" in names and ("inputs" in names or has_inputs or not compiles):
        _refuse_args(text, args)
        return ModelTarget(path, None, None)
    if compiles:
        return ProgramTarget(path, None, tuple(args), _unlike(path, text))
    raise TargetError(f"{path} defines no `model` and does not call torch.compile", _hint(path, tree))


def _folder(text: str) -> ModelTarget:
    """Return the target for a local folder with a config of transformers."""
    path = Path(text)
    if not holds(path.is_dir):
        todo = "name a local folder with a config.json, as hf:./folder; ctrace downloads nothing"
        raise TargetError(f"there is no folder {text}", todo)
    require("fake", FOLDER)
    return ModelTarget(path, None, None)


def program(path: Path, args: Sequence[str], typed: str | None = None) -> ProgramTarget:
    """Return the target for a program: a file, or a folder or archive with a `__main__.py`.

    Raises:
        TargetError: there is no such file, or it does not parse.
    """
    if holds((path / "__main__.py").is_file) or holds(lambda: _is_archive(path)):
        return ProgramTarget(path, None, tuple(args), _unlike(path, typed))
    if not holds(path.is_file):
        raise _no_such_file(path)
    if path.suffix != ".pyc":
        _parse(path)
    return ProgramTarget(path, None, tuple(args), _unlike(path, typed))


def _unlike(path: Path, typed: str | None) -> str | None:
    if typed == str(path):
        return None
    return typed


def _is_archive(path: Path) -> bool:
    import zipfile

    return zipfile.is_zipfile(path)


def _split(text: str) -> tuple[Path | None, str | None]:
    """Split `file.py:name`; the path is None if the text names a module."""
    if holds(Path(text).is_file):
        return Path(text), None
    before, colon, after = text.rpartition(":")
    if colon and holds(Path(before).is_file):
        if not after:
            raise TargetError(f"{text!r} ends in a colon", f"name an object, as in {before}:model, or remove the colon")
        return Path(before), after
    # `pkg.mod:name` names a module; with a slash or `.py` it is a file that does not exist.
    if before and after and "/" not in before and not before.endswith(".py"):
        return None, after
    raise _no_such_file(Path(before if colon else text))


def holds(question: Callable[[], bool]) -> bool:
    """Return the result of a check on a path, or False if the path is too long or contains a NUL."""
    try:
        return question()
    except (OSError, ValueError):
        return False


def _is_forbidden(path: Path) -> bool:
    """Whether we may not even look for a file."""
    try:
        path.stat()
    except PermissionError:
        return True
    except (OSError, ValueError):
        pass
    return False


def _no_such_file(path: Path) -> TargetError:
    if _is_forbidden(path):
        return TargetError(f"{path} cannot be read: Permission denied", "check the permissions of its folder")
    if holds(path.is_dir):
        if any(holds(partial(is_log, each)) for each in path.glob("*.log*")):
            return _is_no_model(f"{path} is a folder with logs of torch")
        return TargetError(f"{path} is a folder", "name a file, such as model.py, or a module as pkg.mod:name")
    if holds(path.parent.is_dir):
        folder = path.parent
    else:
        folder = Path()
    near = nearest(path.name, (entry.name for entry in folder.glob("*.py")))
    todo = "name a Python file, file.py:name or package.module:name"
    if near:
        todo = f"did you mean {folder / near}?"
    return TargetError(f"there is no file {path}", todo)


def _is_no_model(what: str) -> TargetError:
    return TargetError(
        f"{what}: this command needs a model that it can run",
        "read logs with ctrace explain, breaks, guards, graphs, kernels, time --compile, ranks or diff",
    )


def _parse(path: Path) -> ast.Module:
    if path.suffix == ".ipynb":  # JSON, which parses as a Python expression
        raise TargetError(
            f"{path} is a notebook, which is not Python code",
            "in the notebook, write %load_ext ctrace, and %%ctrace above a cell; or save the model in a Python file",
        )
    try:
        return ast.parse(path.read_bytes(), str(path))
    except (SyntaxError, ValueError) as error:
        if is_log(path):
            raise _is_no_model(f"{path} is a log of torch") from None
        line = getattr(error, "lineno", None)
        if line:
            where = f"{path}, line {line}"
        else:
            where = str(path)
        raise TargetError(
            f"{where}: {getattr(error, 'msg', error)}", "correct the file; Python cannot read it"
        ) from None
    except OSError as error:
        raise TargetError(f"{path} cannot be read: {error.strerror}", "check the file's permissions") from None


def _refuse_args(text: str, args: Sequence[str]) -> None:
    if args:
        raise TargetError(
            f"{text} is a model and takes no arguments ({' '.join(args)})", "use ctrace run for a program"
        )


def _top_level_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names that an import of the file binds, also under `if`, `try` and `with`, but not in functions."""
    todo: list[ast.AST] = list(tree.body)
    while todo:
        node = todo.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
                continue
            case ast.Import() | ast.ImportFrom():
                yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
            case ast.Name(ctx=ast.Store()):
                yield node.id
            # A module that is imported does not run this block.
            case ast.If(test=test) if _is_main_guard(test):
                continue
        todo.extend(ast.iter_child_nodes(node))


def _is_main_guard(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def _is_compile(node: ast.AST) -> bool:
    """Whether a node names `torch.compile` or a method `compile` of a model, but not `re.compile`."""
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr="compile"):
            # These modules compile something else than models.
            return name not in ("re", "regex", "ast", "builtins", "sre_compile")
        case ast.Attribute(attr="compile"):
            return True
        # The older spelling of torch.compile, which some libraries still use.
        case ast.Attribute(value=ast.Attribute(attr="_dynamo"), attr="optimize"):
            return True
        case ast.ImportFrom(module="torch", names=names):
            return any(alias.name == "compile" for alias in names)
    return False


def _hint(path: Path, tree: ast.Module) -> str:
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    if classes:
        name = classes[-1]
        return f"add `model = {name}(...)` and `inputs = (...)`, or name an object: ctrace explain {path}:{name}"
    if not any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(tree)):
        return "name a Python file that defines `model` and `inputs`, or calls torch.compile"
    return f"add `model = ...` and `inputs = (...)`; or, if it compiles in a module it imports: ctrace run {path}"
