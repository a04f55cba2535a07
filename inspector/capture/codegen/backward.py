"""Emit a backward graph when the program runs it, as torch.compile does.

AOTAutograd lowers the forward immediately and the backward on the first backward call: since 2.13 in an
`_AutogradBackwardCompiler` (_functorch/_aot_autograd/runtime_wrappers.py:2800), in 2.11 inside the function that
`AOTDispatchAutograd.post_compile` makes (runtime_wrappers.py:2403). ctrace runs the graph eagerly, so that call never
happens; a hook on the graph's outputs makes it instead. If torch has neither of these, every backward is lowered
immediately.
"""

import copy
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.knowledge.versions.torch_names import BACKWARD_COMPILER


class _Compiler(Protocol):
    """The interface of 2.13's class, and of `_OlderCompiler` for 2.11."""

    compiled_bw: Any

    def get_or_compile(self, *, saved_tensors_use_once: bool) -> Any:
        """Compile the backward."""


Pending = list[_Compiler]


class Backwards:
    """Collects the backward compilers that AOTAutograd makes, graph by graph."""

    def __init__(self, recorder: Recorder, emitting: Callable[[], AbstractContextManager[Any]]) -> None:
        self._recorder = recorder
        self._emitting = emitting
        self._current = threading.local()

    @classmethod
    @contextmanager
    def collected(
        cls, recorder: Recorder, emitting: Callable[[], AbstractContextManager[Any]]
    ) -> Iterator["Backwards"]:
        """Collect backward compilers until the end of the block; each backward is compiled inside `emitting()`."""
        from torch._functorch import config
        from torch._functorch._aot_autograd import runtime_wrappers as wrappers

        backwards = cls(recorder, emitting)
        # The newest way first: 2.13 still has `post_compile`, which takes other arguments (runtime_wrappers.py:3745).
        if name := BACKWARD_COMPILER.of(wrappers):
            hook = patched(wrappers, name, backwards._collecting(getattr(wrappers, name)))
        elif hasattr(wrappers.AOTDispatchAutograd, "post_compile"):
            older = wrappers.AOTDispatchAutograd
            hook = patched(older, "post_compile", staticmethod(backwards._collecting_older(older.post_compile)))
        else:
            hook = patched(config, "force_non_lazy_backward_lowering", True)
        with hook:
            yield backwards

    def _collecting(self, original: Any) -> Callable[..., Any]:
        def make(*args: Any, **kwargs: Any) -> Any:
            compiler = original(*args, **kwargs)
            self._add(compiler)
            return compiler

        return make

    def _collecting_older(self, original: Any) -> Callable[..., Any]:
        signature = inspect.signature(original)

        def post_compile(*args: Any, **kwargs: Any) -> Any:
            with self._recorder.watching("a pending backward"):
                arguments = signature.bind(*args, **kwargs).arguments
                self._add(_OlderCompiler(arguments))
            return original(*args, **kwargs)

        return post_compile

    def _add(self, compiler: _Compiler) -> None:
        getattr(self._current, "pending", []).append(compiler)

    @contextmanager
    def of_one_graph(self) -> Iterator[Pending]:
        """Yield the list that collects the backward compilers made in this block."""
        pending: Pending = []
        self._current.pending = pending
        try:
            yield pending
        finally:
            self._current.pending = []

    def triggering(self, forward: Callable[..., Any], pending: Pending) -> Callable[..., Any]:
        """Wrap a graph's forward so that the first backward pass through its outputs compiles the backward."""
        # AOTAutograd compiles a backward at once if it has to, such as with `force_non_lazy_backward_lowering`.
        lazy = [compiler for compiler in pending if compiler.compiled_bw is None]
        if not lazy:
            return forward

        def compile_backward(*_grads: Any) -> None:
            with self._emitting():
                # Emptied before it compiles: a graph with several outputs calls this once for each of them.
                while lazy:
                    _compile(lazy.pop())

        def run(*args: Any) -> Any:
            outputs = forward(*args)
            if lazy:
                with self._recorder.watching("the start of a backward"):
                    _before_backward(outputs, compile_backward)
            return outputs

        return run


class _OlderCompiler:
    """Does what 2.11's autograd function does on the first backward call (runtime_wrappers.py:2857)."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.compiled_bw = arguments["compiled_bw_func"]
        self._info = arguments["lazy_backward_info"]
        self._config = arguments["aot_config"]
        self._without_autocast = arguments["disable_amp"]

    def get_or_compile(self, *, saved_tensors_use_once: bool) -> Any:
        from contextlib import nullcontext

        import torch
        from torch._dynamo.utils import CompileEventLogger, dynamo_timed, get_metrics_context
        from torch._functorch._aot_autograd.logging_utils import track_graph_compiling
        from torch._guards import compile_context, tracing

        if not saved_tensors_use_once and self._info.saved_context is not None:
            self._info.saved_context.fw_metadata.bw_donated_idxs = []
        with (
            tracing(self._info.saved_context),
            compile_context(self._info.saved_compile_context),
            torch._C._DisableAutocast() if self._without_autocast else nullcontext(),
            track_graph_compiling(self._config, "backward"),
            get_metrics_context(),
            dynamo_timed(
                "backward._backward_impl",
                phase_name="entire_backward_compile",
                log_pt2_compile_event=True,
                dynamo_compile_column_us="backward_cumulative_compile_time_us",
            ),
        ):
            CompileEventLogger.compilation_metric(is_forward=False)
            self.compiled_bw = self._config.bw_compiler(
                copy.deepcopy(self._info.bw_module), self._info.placeholder_list
            )
        return self.compiled_bw


def _compile(compiler: _Compiler) -> None:
    import torch

    # With `retain_graph`, saved tensors are used again, and Inductor must not donate their buffers.
    once = not torch._C._autograd._get_current_graph_task_keep_graph()
    compiler.get_or_compile(saved_tensors_use_once=once)


def _before_backward(outputs: Any, action: Callable[..., None]) -> None:
    import torch

    for output in outputs if isinstance(outputs, list | tuple) else (outputs,):
        if isinstance(output, torch.Tensor) and output.grad_fn is not None:
            # Before this node's own backward runs, so compiled and eager backward begin at the same moment.
            output.grad_fn.register_prehook(action)
