"""Emit a backward graph when the program really runs it backward, as torch.compile does.

AOTAutograd lowers the forward at once and leaves the backward in an `_AutogradBackwardCompiler` (2.13,
_functorch/_aot_autograd/runtime_wrappers.py:2800), to be compiled on the first backward call. We run the graph
eagerly, so that call never comes: a hook on the graph's outputs makes it. Where torch has no such class, the backward
is lowered at once.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ctrace.inspector.capture.patch import patched
from ctrace.inspector.capture.recorder import Recorder

Pending = list[Any]


class Backwards:
    """Collects the backward compilers that AOTAutograd makes, graph by graph."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._current = threading.local()

    @classmethod
    @contextmanager
    def collected(cls, recorder: Recorder) -> Iterator["Backwards"]:
        """Collect from now on, in torch's class or, failing that, by lowering every backward at once."""
        from torch._functorch import config
        from torch._functorch._aot_autograd import runtime_wrappers

        backwards = cls(recorder)
        if not hasattr(runtime_wrappers, "_AutogradBackwardCompiler"):
            with patched(config, "force_non_lazy_backward_lowering", True):
                yield backwards
            return
        original = runtime_wrappers._AutogradBackwardCompiler

        def make(*args: Any, **kwargs: Any) -> Any:
            compiler = original(*args, **kwargs)
            getattr(backwards._current, "pending", []).append(compiler)
            return compiler

        with patched(runtime_wrappers, "_AutogradBackwardCompiler", make):
            yield backwards

    @contextmanager
    def of_one_graph(self) -> Iterator[Pending]:
        """Give the list that backward compilers made in this block are added to."""
        pending: Pending = []
        self._current.pending = pending
        try:
            yield pending
        finally:
            self._current.pending = []

    def triggering(self, forward: Callable[..., Any], pending: Pending) -> Callable[..., Any]:
        """Wrap a graph's forward so that running its outputs backward compiles the backward, once."""
        lazy = [compiler for compiler in pending if getattr(compiler, "compiled_bw", None) is None]
        if not lazy:
            return forward

        def compile_backward(*_grads: Any) -> None:
            while lazy:
                self._compile(lazy.pop())

        def run(*args: Any) -> Any:
            outputs = forward(*args)
            if lazy:
                with self._recorder.watching("the start of a backward"):
                    _before_backward(outputs, compile_backward)
            return outputs

        return run

    def _compile(self, compiler: Any) -> None:
        import torch

        once = not torch._C._autograd._get_current_graph_task_keep_graph()
        compiler.get_or_compile(saved_tensors_use_once=once)


def _before_backward(outputs: Any, action: Callable[..., None]) -> None:
    import torch

    for output in outputs if isinstance(outputs, list | tuple) else (outputs,):
        if isinstance(output, torch.Tensor) and output.grad_fn is not None:
            output.grad_fn.register_prehook(action)
