"""Generate the code of a lowered graph, where possible beside the program instead of before it.

Nobody needs the text to go on: the graph runs eagerly, and the backward is compiled from strides that lowering has
fixed. So a fork generates it on another core and writes it to the log. It stays in line where that would not be
true or not be safe: dynamic shapes (code generation may add guards), an initialised GPU, no free core.
"""

import ctypes
import gc
import os
import signal
import sys
import time
import warnings
from types import SimpleNamespace
from typing import Any

from ctrace.inspector.capture.recorder import Recorder
from ctrace.inspector.capture.stage import current_stage


class Codegen:
    """Generates code, and keeps track of the forks that still do."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._forks: list[int] = []
        self._free_cores = len(os.sched_getaffinity(0)) - 1 if hasattr(os, "sched_getaffinity") else 0

    def generate(self, graph: Any) -> None:
        """Generate and record the code of `graph`, a `GraphLowering` that has run."""
        self._forks = [pid for pid in self._forks if not _has_ended(pid)]
        if len(self._forks) < self._free_cores and _is_static(graph) and not _gpu_in_use():
            self._fork(graph)
        else:
            self._record(graph)

    def wait(self) -> None:
        """Wait for all forks."""
        for pid in self._forks:
            _has_ended(pid, block=True)
        self._forks = []

    def _record(self, graph: Any) -> None:
        from torch._logging._internal import trace_structured

        began = time.perf_counter()
        code, _ = graph.codegen_with_cpp_wrapper() if graph.cpp_wrapper else graph.codegen()
        seconds = time.perf_counter() - began
        text = code.value if hasattr(code, "value") else str(code)
        trace_structured("inductor_output_code", lambda: {"filename": ""}, payload_fn=lambda: text)
        self._recorder.record("codegen", {"stage": current_stage(), "seconds": seconds})

    def _fork(self, graph: Any) -> None:
        stage = current_stage()
        self._recorder.record("codegen_started", {"stage": stage})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns where other threads exist; see _in_fork
            pid = os.fork()
        if pid == 0:
            self._in_fork(graph)
        self._forks.append(pid)
        graph.scheduler = SimpleNamespace(nodes=[])  # compile_fx looks at the nodes afterwards (compile_fx.py:1660)

    def _in_fork(self, graph: Any) -> None:
        """Generate, record and end without a trace: no handlers, no buffers, no exit functions of the program."""
        status = 1
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            _die_with_parent()
            gc.disable()  # a collection would copy the parent's pages
            _single_threaded()
            self._record(graph)
            status = 0
        except BaseException as error:
            self._recorder.record(
                "codegen_failed", {"stage": current_stage(), "error": f"{type(error).__name__}: {error}"}
            )
        finally:
            os._exit(status)


def _has_ended(pid: int, *, block: bool = False) -> bool:
    try:
        return os.waitpid(pid, 0 if block else os.WNOHANG)[0] != 0
    except ChildProcessError:  # the program itself waited for any child
        return True


def _die_with_parent() -> None:
    """Have Linux end this process when its parent is gone; elsewhere it ends when its code is generated."""
    if sys.platform == "linux":
        set_parent_death_signal = 1  # PR_SET_PDEATHSIG, linux/prctl.h
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def _is_static(graph: Any) -> bool:
    """Whether no value of the graph has a symbolic size, be it an input's or one that depends on data."""
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
    """OpenMP hangs in a forked child that opens a parallel region; the emitted code must not change for that."""
    import torch
    from torch._inductor import config

    if config.cpp.threads < 1:
        config.cpp.threads = torch.get_num_threads()
    torch.set_num_threads(1)
