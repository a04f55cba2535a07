"""Run a Triton kernel on the CPU, with Triton's interpreter (triton/runtime/interpreter.py, 3.6 to 3.9).

It runs the kernel's Python on tensors in memory, one program of the grid after another. It is slow and lacks parts of
the language.
"""

import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FunctionType
from typing import Any

from ctrace.inspector.capture.core.patch import patched

SECONDS = 20
"""Time limit for one launch."""


class TooSlowError(Exception):
    """The launch exceeds the time limit."""


def run_interpreted(kernel: Any, args: Any, kwargs: Any, grid: Any, seconds: float = SECONDS) -> None:
    """Run one launch of a `@triton.jit` function in the interpreter, for at most some seconds.

    Raises:
        Exception: the interpreter cannot run it.
    """
    from triton.runtime import interpreter as triton_interpreter
    from triton.runtime import jit

    copies: dict[Any, Any] = {}
    launch = triton_interpreter.GridExecutor(
        _rewritten(kernel, copies), kernel.arg_names, _sizes(kernel, args, kwargs, grid)
    )
    builder = triton_interpreter.interpreter_builder
    with ExitStack() as patches:
        # Outermost, so that it also undoes what is patched for the functions that a kernel calls.
        patches.enter_context(_language_kept())
        # It raises outside of a kernel that is being compiled (triton/runtime/jit.py, 3.6 and 3.7).
        patches.enter_context(patched(jit.JITFunction, "__call__", _calling(copies)))
        # Called for each program of the grid, and for each load, which most long loops make.
        for name in ("set_grid_idx", "create_masked_load"):
            patches.enter_context(patched(builder, name, _until(time.monotonic() + seconds, getattr(builder, name))))
        patches.enter_context(_no_modes())
        launch(*args, **kwargs)


def _rewritten(kernel: Any, copies: dict[Any, Any]) -> Any:
    """Return a kernel rewritten for the interpreter, which adds names only to a copy of the kernel's globals."""
    from triton.runtime.interpreter import FunctionRewriter

    function = kernel.fn
    if function not in copies:
        copied = FunctionType(function.__code__, dict(function.__globals__), function.__name__, function.__defaults__)
        copied.__annotations__, copied.__kwdefaults__ = function.__annotations__, function.__kwdefaults__
        copies[function] = FunctionRewriter(copied).rewrite_ast()
    return copies[function]


def _calling(copies: dict[Any, Any]) -> Callable[..., Any]:
    """Interpret the other `@triton.jit` functions that a kernel calls, including those of Triton's library."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        from triton.runtime.interpreter import _patch_lang

        function = _rewritten(self, copies)
        _patch_lang(function)
        return function(*args, **kwargs)

    return call


def _sizes(kernel: Any, args: Any, kwargs: Any, grid: Any) -> tuple[int, ...]:
    if callable(grid):
        arguments = {**_defaults(kernel.fn), **dict(zip(kernel.arg_names, args, strict=False)), **kwargs}
        grid = grid(arguments)
    return tuple(int(size) for size in (grid if isinstance(grid, tuple | list) else (grid,)))


def _defaults(function: Any) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {each.name: each.default for each in parameters if each.default is not each.empty}


def _until(end: float, original: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if time.monotonic() > end:
            raise TooSlowError
        return original(*args, **kwargs)

    return call


@contextmanager
def _language_kept() -> Iterator[None]:
    """Restore Triton's language after the block: the interpreter replaces functions that compiling needs."""
    from triton import language

    core = language.core
    # All modules and classes that `_patch_lang` gives other functions (triton/runtime/interpreter.py, 3.6 to 3.9).
    owners = (language, core, language.math, language.tensor, core.tensor_descriptor_base, language.dtype)
    before = [dict(vars(owner)) for owner in owners]
    try:
        yield
    finally:
        for owner, names in zip(owners, before, strict=True):
            _put_back(owner, names)


def _put_back(owner: Any, names: dict[str, Any]) -> None:
    for name, value in list(vars(owner).items()):
        if name not in names:
            delattr(owner, name)
        elif names[name] is not value:
            setattr(owner, name, names[name])


@contextmanager
def _no_modes() -> Iterator[None]:
    """Disable torch's modes in the block: the interpreter's tensors are on the CPU, its ops not the program's."""
    from torch._C import DisableTorchFunction
    from torch.utils._python_dispatch import _disable_current_modes

    with DisableTorchFunction(), _disable_current_modes():
        yield
