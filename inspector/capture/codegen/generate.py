"""Generate the code of a lowered graph, if possible in parallel with the program.

The program does not need the code: the graph runs eagerly, and the backward is compiled from the strides that lowering
fixed. So a fork generates it on another core and writes it to the log. Generate it in this process if a fork would be
wrong (with dynamic shapes, code generation may add guards), unsafe (with an initialized GPU), or of no use (without a
free core).
"""

import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ctrace.inspector.capture.codegen.elsewhere import KernelCompiler
from ctrace.inspector.capture.core.cores import Cores
from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.core.forks import end, exit_status, fork
from ctrace.inspector.capture.core.part import PartIdentity, current_stage
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.facts.events.run_events import CodegenEnded, CodegenFailed, CodegenStarted


class Codegen:
    """Generates code, compiles its kernels with `compiler`, and tracks the forks that still run."""

    def __init__(self, recorder: Recorder, cores: Cores, compiler: KernelCompiler | None) -> None:
        self._recorder = recorder
        self._cores = cores
        self._compiler = compiler
        self._forks: list[int] = []
        self._later: list[Any] = []

    def generate(self, graph: Any) -> None:
        """Generate and record the code of `graph`, a `GraphLowering` that has run."""
        # Reap first: a fork that was killed gives its core back here.
        self._forks = [pid for pid in self._forks if self._runs(pid)]
        # The core last: what is taken has to be used or given back.
        if _is_static(graph) and not _gpu_in_use() and self._cores.take():
            self._generate_beside(graph)
        else:
            self._compile_beside(self._record(graph))

    def end(self) -> None:
        """Kill all forks: the program is ending, and no one will read their records."""
        for pid in self._forks:
            end(pid)
        self._forks = []
        if self._compiler is not None:
            self._compiler.discard()

    def wait(self) -> None:
        """Wait for all forks, and compile the kernels for which no core was free."""
        if self._compiler is not None:
            self._compiler.compile(self._later)
        self._later = []
        for pid in self._forks:
            self._runs(pid, block=True)
        self._forks = []
        if self._compiler is not None:
            self._compiler.end()

    def _record(self, graph: Any) -> list[Any]:
        """Generate and record code, and return its kernels that need compiling."""
        from torch._logging._internal import trace_structured

        began = time.perf_counter()
        # What `compile_to_module` does first (graph.py, 2.13); it goes on to import the code.
        code, _ = graph.codegen_with_cpp_wrapper() if graph.cpp_wrapper else graph.codegen()
        seconds = time.perf_counter() - began
        text = code.value if hasattr(code, "value") else str(code)
        # Torch logs the code after it has written the file of the module, which there is none of here.
        trace_structured("inductor_output_code", lambda: {"filename": ""}, payload_fn=lambda: text)
        self._recorder.add(CodegenEnded(current_stage(), seconds))
        return [] if self._compiler is None else self._compiler.jobs(text, PartIdentity.under_way())

    def _generate_beside(self, graph: Any) -> None:
        # Before the fork: if it is killed, the log has a start without an end.
        self._recorder.add(CodegenStarted(current_stage()))
        if not self._forked(lambda: self._in_fork(graph)):
            self._compile_beside(self._record(graph))
            return
        # Afterwards compile_fx reads the nodes, and with CUDA graphs asks whether any of them is a kernel (2.15), for
        # which it would record no graph: whether there is one is known only in the fork.
        graph.scheduler = SimpleNamespace(nodes=[], count_kernel_nodes=lambda _nodes: 1)

    def _compile_beside(self, jobs: list[Any]) -> None:
        """Compile kernels in a fork if a core is free, else at the end, because nothing waits for the kernels."""
        if jobs and self._compiler is not None and self._cores.take():
            compiler = self._compiler
            if self._forked(lambda: self._holding_a_core(lambda: compiler.compile(jobs))):
                return
        self._later += jobs

    def _forked(self, work: Callable[[], None]) -> bool:
        """Run `work` in a fork that holds the core just taken; return False if the system cannot fork (ulimit -u)."""
        try:
            self._forks.append(fork(work))
        except OSError:
            self._cores.release()
            return False
        return True

    def _in_fork(self, graph: Any) -> None:
        def work() -> None:
            _single_threaded()
            jobs = self._record(graph)
            _log_collectives(graph)
            if self._compiler is not None:
                self._compiler.compile(jobs)

        self._holding_a_core(work)

    def _holding_a_core(self, work: Any) -> None:
        try:
            work()
        except BaseException as error:
            self._recorder.add(CodegenFailed(current_stage(), kind_and_message(error)))
        finally:
            self._cores.release()

    def _runs(self, pid: int, *, block: bool = False) -> bool:
        status = exit_status(pid, block=block)
        if status is not None and status < 0:  # it was killed and has not returned its core
            self._cores.release()
        return status is None


def _log_collectives(graph: Any) -> None:
    """Log the order of the collectives, as compile_fx would if it had generated the code (since 2.10)."""
    from torch._inductor import debug

    log: Any = getattr(debug, "log_collective_schedule", None)
    if log is not None:
        log(graph.scheduler.nodes)


def _is_static(graph: Any) -> bool:
    """Whether all sizes in the graph are fixed: none is symbolic, from an input or data-dependent."""
    return not any(_is_symbolic(node.meta.get("val")) for node in graph.module.graph.nodes)


def _is_symbolic(value: Any) -> bool:
    import torch

    if isinstance(value, list | tuple):
        return any(map(_is_symbolic, value))
    if isinstance(value, torch.Tensor):
        return any(isinstance(size, torch.SymInt) for size in value.shape)
    return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool)


def _gpu_in_use() -> bool:
    torch = sys.modules["torch"]
    return bool(torch.cuda.is_initialized())


def _single_threaded() -> None:
    """Prevent OpenMP's parallel regions, which hang in a forked child, without changing the emitted code."""
    import torch
    from torch._inductor import config

    # The number of threads is part of the emitted code, so it is fixed before torch is set to use one.
    if config.cpp.threads < 1:
        config.cpp.threads = torch.get_num_threads()
    torch.set_num_threads(1)
