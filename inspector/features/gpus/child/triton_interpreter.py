"""Run the program's Triton kernels on the CPU with Triton's interpreter if there is no GPU.

A launch is `JITFunction.run` (3.6 and 3.7, triton/runtime/jit.py), which needs a driver. The interpreter
(triton/runtime/interpreter.py) runs the kernel's Python on tensors in memory, one program of the grid after another. It
is slow and lacks parts of the language. If it cannot run a kernel, the kernel's results are unknown, and the log says
so.
"""

import functools
import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FunctionType, ModuleType
from typing import Any

from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.source import When

SECONDS = 20
"""Time limit for one launch."""
_not_run: dict[str, str] = {}
"""Kernels that the interpreter could not run, with the reasons."""


def why_unknown() -> str:
    """Return why the program's results are unknown, or "" if every kernel ran."""
    return "; ".join(f"the kernel {name} was not run without a GPU" for name in _not_run)


@contextmanager
def interpreter(recorder: Recorder, when: When) -> Iterator[None]:
    """Interpret each kernel launch whose tensors are all on the CPU."""
    _not_run.clear()
    with ExitStack() as patches:

        def install_dynamo(support: ModuleType) -> None:
            with recorder.watching("whether Dynamo takes Triton kernels"):
                # Dynamo calls this for each kernel (_dynamo/variables/builder.py), from 2.15 on with `include_cpu`.
                package = support.has_triton_package
                patches.enter_context(patched(support, "has_triton", functools.cache(lambda **_: package())))

        def install(jit: ModuleType) -> None:
            with recorder.watching("kernels that run without a GPU"):
                run = _launching(jit.JITFunction.run, recorder)
                patches.enter_context(patched(jit.JITFunction, "run", run))

        def install_autotuner(autotuner: ModuleType) -> None:
            with recorder.watching("configurations of kernels that run without a GPU"):
                tuner = autotuner.Autotuner
                patches.enter_context(patched(tuner, "run", _untuned(tuner.run)))

        when("torch.utils._triton", install_dynamo)
        when("triton.runtime.jit", install)
        when("triton.runtime.autotuner", install_autotuner)
        yield


def _launching(original: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if warmup or not _on_cpu((*args, *kwargs.values())):
            return original(self, *args, grid=grid, warmup=warmup, **kwargs)
        _untraced(_interpret)(self, args, kwargs, grid, recorder)
        return None

    return run


def _untraced(function: Callable[..., Any]) -> Callable[..., Any]:
    """Keep Dynamo, which may be active during the launch, from compiling the interpreter."""
    import torch

    disabled: Callable[..., Any] = torch.compiler.disable(function)
    return disabled


def _untuned(original: Callable[..., Any]) -> Callable[..., Any]:
    """Run an autotuned kernel with its first configuration, because the fastest one is unknown here."""

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not _on_cpu((*args, *kwargs.values())) or not self.configs:
            return original(self, *args, **kwargs)
        config = self.configs[0]
        named = {**dict(zip(self.arg_names, args, strict=False)), **kwargs, **config.all_kwargs()}
        if config.pre_hook is not None:
            config.pre_hook(named)
        return self.fn.run(*args, **kwargs, **config.all_kwargs())

    return run


def _on_cpu(values: tuple[Any, ...]) -> bool:
    """Whether the values include tensors, and all are real and on the CPU, whatever device the program sees."""
    import torch
    from torch._C import DisableTorchFunction
    from torch._subclasses import FakeTensor

    tensors = [value for value in map(_base, values) if isinstance(value, torch.Tensor)]
    with DisableTorchFunction():
        return bool(tensors) and all(each.device.type == "cpu" and not isinstance(each, FakeTensor) for each in tensors)


def _base(value: Any) -> Any:
    """Return the tensor behind a descriptor (triton/tools/tensor_descriptor.py) or reinterpreted tensor (jit.py)."""
    return getattr(value, "base", value) if type(value).__module__.startswith("triton.") else value


def _interpret(kernel: Any, args: Any, kwargs: Any, grid: Any, recorder: Recorder) -> None:
    """Interpret one launch; if that fails, leave the outputs unchanged and record a problem."""
    name = kernel.fn.__name__
    if name in _not_run:
        return
    try:
        run_interpreted(kernel, args, kwargs, grid)
    except Exception as error:
        _not_run[name] = _reason(error)
        recorder.problem(
            f"the output of {name} is unknown: there is no GPU, and Triton's interpreter {_not_run[name]};"
            " results were not compared with eager"
        )


class _TooSlowError(Exception):
    """The launch exceeds the time limit."""


def _reason(error: BaseException) -> str:
    cause = error.__cause__ or error
    if isinstance(cause, _TooSlowError):
        return f"takes longer than {SECONDS} s"
    lines = str(cause).splitlines()
    return f"failed with {type(cause).__name__}: {lines[0] if lines else ''}"


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
        patches.enter_context(_language_kept())
        patches.enter_context(patched(jit.JITFunction, "__call__", _calling(copies)))
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
            raise _TooSlowError
        return original(*args, **kwargs)

    return call


@contextmanager
def _language_kept() -> Iterator[None]:
    """Restore Triton's language after the block: the interpreter replaces functions that compiling needs."""
    from triton import language

    core = language.core
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
