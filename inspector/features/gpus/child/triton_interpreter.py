"""Run the program's Triton kernels on the CPU with Triton's interpreter if there is no GPU.

A launch is `JITFunction.run` (3.6 and 3.7, triton/runtime/jit.py), which needs a driver. The interpreter
(triton/runtime/interpreter.py) runs the kernel's Python on tensors in memory, one program of the grid after another. It
is slow and lacks parts of the language. If it cannot run a kernel, the kernel's results are unknown, and the log says
so.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.core.hook import When
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.kernels.interpreted import SECONDS, TooSlowError, run_interpreted

_not_run: dict[str, str] = {}
"""Kernels that the interpreter could not run, with the reasons."""


def _why_unknown() -> str:
    """Return why the program's results are unknown, or "" if every kernel ran."""
    return "; ".join(f"the kernel {name} was not run without a GPU" for name in _not_run)


@contextmanager
def interpreter(recorder: Recorder, when: When) -> Iterator[None]:
    """Interpret each kernel launch whose tensors are all on the CPU."""
    _not_run.clear()
    recorder.doubts.append(_why_unknown)
    with ExitStack() as patches:

        def install_dynamo(support: ModuleType) -> None:
            with recorder.watching("whether Dynamo takes Triton kernels"):
                # Dynamo calls this for each kernel (_dynamo/variables/builder.py), from 2.15 on with `include_cpu`.
                # The package is enough here: the interpreter needs no driver.
                package = support.has_triton_package
                takes_kernels: Any = functools.cache(lambda **_: package())
                # What imported the original earlier still asks that one, which caches its answer, too.
                takes_kernels.__wrapped__ = support.has_triton
                patches.enter_context(patched(support, "has_triton", takes_kernels))

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
            # As Triton does before it launches a configuration, e.g. to set a buffer to zero.
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
    if type(value).__module__.startswith("triton."):
        return getattr(value, "base", value)
    return value


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


def _reason(error: BaseException) -> str:
    cause = error.__cause__ or error
    if isinstance(cause, TooSlowError):
        return f"takes longer than {SECONDS} s"
    lines = str(cause).splitlines()
    return f"failed with {type(cause).__name__}: {lines[0] if lines else ''}"
