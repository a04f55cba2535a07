"""Compare inside a program: the first call of each graph that it compiles, forward and backward.

The program runs as Python would run it. Where it calls Inductor (2.13, _inductor/compile_fx.py:compile_fx, which
`torch.compile` imports at each compilation), its graphs are generated with the lines that tell of each kernel. Nothing
is patched or set before the program itself imports this module of torch, and settings are those of one compilation.
What it draws, writes and records stays its own: see `modes_off` and `why_not_again`.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.calls.program_run import ENDED_WELL, ending_of, run_program
from ctrace.inspector.capture.comparing.judgement import Judgement
from ctrace.inspector.capture.core.imports import Preloaded, watch_imports
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.accuracy_facts import Accuracy
from ctrace.inspector.features.accuracy.accuracy_request import AccuracyRequest
from ctrace.inspector.features.accuracy.child.node_values import in_program, modes_off
from ctrace.inspector.features.accuracy.child.numeric_findings import Findings
from ctrace.inspector.features.accuracy.child.stage_graphs import before_passes
from ctrace.inspector.features.accuracy.child.watched_kernels import (
    CountingListener,
    Listener,
    WatchedGraph,
    listening,
    watched,
)
from ctrace.inspector.runs.tasks import TaskError

_SETTINGS = {
    "fx_graph_cache": False,
    "fx_graph_remote_cache": False,
    "graph_partition": False,
    "freezing": False,
    "triton.cudagraphs": False,
}
"""Settings under which the code of a graph is generated here, and each kernel is called by it. Random numbers stay
those that the program has without ctrace."""


class FirstCalls(Listener):
    """Passes on the first call of each graph, of this process, one graph at a time."""

    def __init__(self, inner: Listener) -> None:
        self._inner = inner
        self._process = os.getpid()
        self._seen: set[int] = set()
        self._current: tuple[WatchedGraph, int] | None = None

    def entered(self, graph: WatchedGraph, args: list[Any], names: dict[str, Any]) -> None:
        """Pass on the call of a graph that was not called before."""
        me = threading.get_ident()
        if self._current is not None and self._current[1] != me:
            return  # another thread is in a graph, whose kernels are compared
        self._current = None
        if os.getpid() != self._process or id(graph) in self._seen:
            return
        self._seen.add(id(graph))
        self._current = graph, me
        with modes_off():
            self._inner.entered(graph, args, names)

    def called(self, graph: WatchedGraph, number: int, names: dict[str, Any]) -> None:
        """Pass on a kernel of it."""
        if self._current != (graph, threading.get_ident()):
            return
        with modes_off():
            self._inner.called(graph, number, names)
        if number == len(graph.calls) - 1:
            self._current = None


class ProgramComparison(Findings):
    """Compares what a program compiles."""

    def __init__(self, request: AccuracyRequest) -> None:
        super().__init__(request, {})
        self._counting = CountingListener(self._judge, self._stages)
        self._is_compiling = threading.local()

    def answered(self, preloaded: Preloaded) -> Accuracy:
        """Run the program to its end, and say what was wrong in it.

        Raises:
            TargetError: it compiles nothing.
            TaskError: it ends with an exception before it compiles anything.
        """
        capture = self._request.capture
        self._stages.is_active = True
        self._judge.scenario = self._stages.scenario = "program"
        with (
            watch_imports() as when,
            ExitStack() as patches,
            in_program(),
            listening(FirstCalls(self._counting)),
        ):
            when("torch._inductor.compile_fx", partial(self._patch, patches))
            self._program = ending_of(lambda: run_program(capture, preloaded))
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
        name = capture.typed or capture.path or str(capture.module)
        if not self._graphs:
            if self._program != ENDED_WELL:
                raise TaskError(
                    f"{name} ended before it compiled anything: {self._program}", "first run it in plain Python"
                )
            what = f"{name} compiled nothing with Inductor, so there are no kernels to compare"
            raise TargetError(what, "call what torch.compile returns, or name a model: ctrace accuracy file.py:name")
        if not self._counting.graphs:
            self._not_compared["the program", "no compiled graph was called"] = None
        self._kernels, self._runs = self._counting.kernels, self._counting.graphs
        self._not_compared |= self._counting.failed
        fine = Judgement.UNDECIDED if self._stages.not_compared else Judgement.FINE
        self._verdicts.append(Judgement.WRONG if self._stages.wrong else fine)
        return self._found()

    def _patch(self, patches: ExitStack, module: ModuleType) -> None:
        self._graphs = patches.enter_context(watched())
        self._before = patches.enter_context(before_passes())
        patches.enter_context(patched(module, "compile_fx", self._compiling(module.compile_fx, module)))

    def _compiling(self, original: Callable[..., Any], module: ModuleType) -> Callable[..., Any]:
        inner = module.compile_fx_inner

        def compile_fx(
            model_: Any, example_inputs_: Any, inner_compile: Any = inner, config_patches: Any = None, **others: Any
        ) -> Any:
            import torch

            is_nested = getattr(self._is_compiling, "is_set", False)
            if is_nested or inner_compile is not inner or not isinstance(model_, torch.fx.GraphModule):
                return original(model_, example_inputs_, inner_compile, config_patches, **others)
            settings = {**(config_patches or {}), **_SETTINGS}

            def compile_it(graph: Any, inputs: Any, more: dict[str, Any]) -> Callable[..., Any]:
                from torch._functorch import config as of_autograd

                with self._compiling_here(), of_autograd.patch(enable_autograd_cache=False):
                    found: Callable[..., Any] = original(graph, inputs, inner_compile, {**settings, **more}, **others)
                    return found

            return self._stages.compiled(model_, example_inputs_, compile_it, once=True)

        return compile_fx

    @contextmanager
    def _compiling_here(self) -> Iterator[None]:
        self._is_compiling.is_set = True
        try:
            yield
        finally:
            self._is_compiling.is_set = False
