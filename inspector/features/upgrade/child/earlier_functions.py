"""Record which of torch's functions run, and run some with the code that they have in another torch."""

import ast
import gc
import importlib
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_VARARGS, CO_VARKEYWORDS
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from ctrace.inspector.errors import TargetError
from ctrace.inspector.runs.capture_request import TorchSource

_NESTED = ".<locals>."
_KINDS = CO_VARARGS | CO_VARKEYWORDS | CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR


def put_back(source: TorchSource) -> None:
    """Replace the code of a module's functions by that of another file.

    The functions stay the same objects, so that all who hold them, such as tables of lowerings, get the other code.

    Raises:
        TargetError: a function is not there, closes over other variables, or shares its name with another one.
    """
    module = importlib.import_module(source.module)
    file = str(module.__file__)
    tree = ast.parse(Path(source.path).read_bytes(), file)
    codes = dict(_unique(_codes(compile(tree, file, "exec"))))
    _add_missing(tree, module, file)
    functions: dict[str, list[FunctionType]] = {}
    gc.unfreeze()  # in a fork, all that was imported before it is frozen, and not among the objects
    for each in gc.get_objects():
        # Not isinstance, which asks an object for its class: a proxy whose object is gone raises ReferenceError.
        if type(each) is FunctionType and each.__code__.co_filename == file:
            functions.setdefault(each.__code__.co_qualname, []).append(each)
    for name in source.functions:
        found = functions.get(name, [])
        if name not in codes or _is_shared(found) or not any(_replaced(each, codes[name]) for each in found):
            raise TargetError(f"{source.module}.{name} cannot be put back", "leave it as it is")
        for nested, others in functions.items():  # closures that it has made until now
            if nested.startswith(f"{name}{_NESTED}") and nested in codes and not _is_shared(others):
                for each in others:
                    _replaced(each, codes[nested])


def _add_missing(tree: ast.Module, module: ModuleType, file: str) -> None:
    """Add to a module what its top had in the earlier release and no longer has, since earlier code reads it.

    That are imports and plain functions, such as a helper that another one has replaced.
    """
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for each in node.names:
                if (each.asname or each.name.partition(".")[0]) not in vars(module):
                    one = ast.copy_location(type(node)(**{**dict(ast.iter_fields(node)), "names": [each]}), node)
                    with suppress(ImportError):  # gone from torch: code that needs it raises NameError in the trial
                        _run(one, module, file)
        # A decorator could register the function a second time, or start something.
        elif isinstance(node, ast.FunctionDef) and not node.decorator_list and node.name not in vars(module):
            with suppress(NameError):  # a default or an annotation of a type that is gone, likewise
                _run(node, module, file)


def _run(node: ast.stmt, module: ModuleType, file: str) -> None:
    exec(compile(ast.Module([node], []), file, "exec"), vars(module))


def _replaced(function: FunctionType, code: CodeType) -> bool:
    # Callers that hold the function still call it as before.
    if _signature(function.__code__) != _signature(code):
        return False
    function.__code__ = code
    return True


def _signature(code: CodeType) -> tuple[object, ...]:
    """Return what has to be equal, for the function's closure and its defaults to fit the code."""
    arguments = code.co_argcount + code.co_kwonlyargcount
    shape = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & _KINDS
    return *shape, code.co_varnames[:arguments], code.co_freevars


def _is_shared(functions: Iterable[FunctionType]) -> bool:
    """Whether functions of one name are several, and not one that was made several times."""
    return len({each.__code__ for each in functions}) > 1


def _unique(codes: Iterable[tuple[str, CodeType]]) -> Iterator[tuple[str, CodeType]]:
    """Yield the code of each name that one function alone has.

    A property has two of one name, and a function that makes a table may have fifty lambdas: nothing tells them apart.
    """
    every = list(codes)
    times = Counter(name for name, _ in every)
    yield from ((name, code) for name, code in every if times[name] == 1)


def _codes(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each.co_qualname, each
            yield from _codes(each)


def record_calls(file: Path) -> None:
    """Append a line for each of torch's functions that is called from now on: its file below torch's folder, its name.

    At once, not at the end: kernels are generated in a fork, which ends without exit functions.
    """
    import torch

    home = f"{Path(torch.__file__ or '').parent}/"
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    # By identity: the hash of a code object reads all its constants, and this runs for each call of the process.
    codes: dict[int, CodeType] = {}

    def called(frame: FrameType, _event: str, _value: Any) -> None:
        code = frame.f_code
        if id(code) in codes:
            return
        codes[id(code)] = code
        if code.co_filename.startswith(home):
            with suppress(OSError):  # the program has closed it
                os.write(descriptor, f"{code.co_filename.removeprefix(home)}\t{code.co_qualname}\n".encode())

    # Both: one is for threads that start later, and one is for this thread.
    threading.setprofile(called)
    sys.setprofile(called)
