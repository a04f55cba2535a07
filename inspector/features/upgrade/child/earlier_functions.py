"""Run functions of torch with the code that they have in another torch."""

import gc
import importlib
from collections.abc import Iterator
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_VARARGS, CO_VARKEYWORDS
from pathlib import Path
from types import CodeType, FunctionType

from ctrace.inspector.errors import TargetError
from ctrace.inspector.runs.capture_request import TorchSource

_NESTED = ".<locals>."
_KINDS = CO_VARARGS | CO_VARKEYWORDS | CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR


def put_back(source: TorchSource) -> None:
    """Replace the code of a module's functions by that of another file.

    The functions stay the same objects, so that all who hold them, such as tables of lowerings, get the other code.

    Raises:
        TargetError: a function is not there, or closes over other variables.
    """
    module = importlib.import_module(source.module)
    file = str(module.__file__)
    codes = dict(_codes(compile(Path(source.path).read_bytes(), file, "exec")))
    functions: dict[str, list[FunctionType]] = {}
    for each in gc.get_objects():
        # Not isinstance, which asks an object for its class: a proxy whose object is gone raises ReferenceError.
        if type(each) is FunctionType and each.__code__.co_filename == file:
            functions.setdefault(each.__code__.co_qualname, []).append(each)
    for name in source.functions:
        found = functions.get(name, [])
        if name not in codes or not any(_replaced(each, codes[name]) for each in found):
            raise TargetError(f"{source.module}.{name} cannot be put back", "leave it as it is")
        for nested, others in functions.items():  # closures that it has made until now
            if nested.startswith(f"{name}{_NESTED}") and nested in codes:
                for each in others:
                    _replaced(each, codes[nested])


def _replaced(function: FunctionType, code: CodeType) -> bool:
    if _signature(function.__code__) != _signature(code):
        return False
    function.__code__ = code
    return True


def _signature(code: CodeType) -> tuple[object, ...]:
    """Return what has to be equal, for the function's closure and its defaults to fit the code."""
    arguments = code.co_argcount + code.co_kwonlyargcount
    shape = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & _KINDS
    return *shape, code.co_varnames[:arguments], code.co_freevars


def _codes(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each.co_qualname, each
            yield from _codes(each)
