"""Emitting is not executing: generate every kernel's source, build nothing, and run the graphs eagerly.

A graph enters Inductor in `compile_fx` (2.13, _inductor/compile_fx.py:2685) and passes through AOTAutograd, lowering,
fusion and code generation, so guards, failures and shapes are those of a real compilation. Only the last step is
skipped: building and loading the module (`GraphLowering.compile_to_module`, graph.py:2662). Dynamo gets a copy of the
original graph to run eagerly, with the same numbers as without torch.compile. Choices that Inductor would make by
timing are listed for a target GPU, and otherwise not made (`Tuning`).

If only guards are needed (`tracing` in dynamo/eager_backend.py), code generation is skipped, too.

The program does not need the code: the graph runs eagerly, and the backward is compiled from the strides that lowering
fixed. So a fork generates it on another core and writes it to the log. Generate it in this process if a fork would be
wrong (with dynamic shapes, code generation may add guards), unsafe (with an initialized GPU), or of no use (without a
free core).

`Elsewhere` is what code for another device needs to know of it; the virtual GPU answers (features/gpus/child/door.py).

A backward graph is emitted when the program runs it, as torch.compile does (`Backwards`). AOTAutograd lowers the
forward immediately and the backward on the first backward call: since 2.13 in an `_AutogradBackwardCompiler`
(_functorch/_aot_autograd/runtime_wrappers.py:2800), in 2.11 inside the function that `AOTDispatchAutograd.post_compile`
makes (runtime_wrappers.py:2403). ctrace runs the graph eagerly, so that call never happens; a hook on the graph's
outputs makes it instead. If torch has neither of these, every backward is lowered immediately.
"""

import copy
import gc
import inspect
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.core.forks import Cores, end, exit_status, fork
from ctrace.inspector.capture.core.hook import Hook, When
from ctrace.inspector.capture.core.part import PartIdentity, current_stage
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.dynamo.eager_backend import (
    RUNNER,
    add_late_guards,
    has_hinted_symbols,
    late_guards,
    runner_of,
)
from ctrace.inspector.facts.run_events import CodegenEnded, CodegenFailed, CodegenStarted, InductorGuardsSeen
from ctrace.inspector.knowledge.torch_names import BACKWARD_COMPILER


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
        # Outside of `of_one_graph`, such as for a graph that the program compiles ahead of time, nobody waits for it.
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


_TUNING = (
    "max_autotune",
    "max_autotune_gemm",
    "max_autotune_pointwise",
    "coordinate_descent_tuning",
    "benchmark_fusion",
)
"""Switches of torch._inductor.config that enable timed choices, which need built kernels."""
_PROCESSES = ("autotune_in_subproc", "pipeline_max_autotune_gemm", "distributed_max_autotune_gemm")
"""Switches that build and time candidates in separate processes during lowering."""
_AHEAD = "a graph was compiled ahead of time, outside of torch.compile (torch.compiler.precompile): it is not shown"
_REPORTED = ("max_autotune", "max_autotune_gemm", "max_autotune_pointwise", "coordinate_descent_tuning")


class Tuning(Struct, frozen=True):
    """The switches to turn off while a graph is compiled, and a context to use instead of timing."""

    off: dict[str, bool]
    instead: Callable[[], AbstractContextManager[None]]
    problem: Callable[[], None]
    """Records that tuning was enabled but not done."""

    def allowed(self, patches: dict[str, Any]) -> dict[str, Any]:
        """Return the settings passed to `torch.compile`, without those that enable tuning."""
        from torch._inductor import config

        if any(patches.get(name, getattr(config, name, False)) for name in _REPORTED if name in self.off):
            self.problem()
        return {name: value for name, value in patches.items() if name not in self.off}


def unmeasured(recorder: Recorder) -> Tuning:
    """Return a Tuning that turns timed choices off and replaces them by nothing."""
    what = (
        "autotuning was not measured: choices can only be timed on built kernels (--build); "
        "--target lists the candidates for a GPU"
    )
    return Tuning(_off(_TUNING), nullcontext, lambda: recorder.problem(what))


class KernelCompiler(Protocol):
    """Compiles emitted kernels to machine code."""

    def jobs(self, wrapper: str, part: PartIdentity) -> list[Any]:
        """Return the kernels in the code of a graph part that are still to be compiled."""

    def compile(self, jobs: list[Any]) -> None:
        """Compile kernels, record the outcomes, and wait until all are done."""

    def discard(self) -> None:
        """Remove temporary files without recording anything: the program is ending."""

    def end(self) -> None:
        """Record what remains, and remove temporary files."""


class Elsewhere(Protocol):
    """A device that code is emitted for, and that need not exist here."""

    def compiler(self, cores: Cores) -> KernelCompiler:
        """Return the compiler of its kernels."""

    def candidates(self) -> Callable[[], AbstractContextManager[None]] | None:
        """Return a context in which choices are listed, not timed; None: this torch chooses in another way."""

    def patches(self, when: When) -> AbstractContextManager[None]:
        """Change what torch refuses on this machine only."""

    def emitting(self, configured: Callable[[], AbstractContextManager[Any]]) -> AbstractContextManager[None]:
        """Return a context in which Inductor sees the device; failing to emit code in it does not end the program."""

    def tracing(self, inputs: Any) -> AbstractContextManager[None]:
        """Return a context in which AOTAutograd may trace a graph with these inputs."""

    def moved(self, model: Any, inputs: Any) -> list[Any]:
        """Move a graph module to the device, and return its inputs there."""

    def running(self, graph: Any) -> Callable[..., Any]:
        """Return a function that runs a graph here, although some of its ops may have no kernel here."""


def listed(recorder: Recorder, there: Elsewhere) -> Tuning:
    """List the candidates of each choice for another device."""
    candidates = there.candidates()
    if candidates is not None:
        return Tuning(_off(_PROCESSES), candidates, lambda: None)
    what = "autotuning candidates could not be listed: this version of torch chooses between them differently"
    return Tuning(_off(_TUNING), nullcontext, lambda: recorder.problem(what))


def _off(names: tuple[str, ...]) -> dict[str, bool]:
    from torch._inductor import config

    return {name: False for name in names if hasattr(config, name)}


Context = Callable[[], AbstractContextManager[Any]]
Device = Callable[[Recorder], Elsewhere]
"""Makes what presents a device, for one capture."""


def emitting(device: Device | None, cores: int | None = None) -> Hook:
    """Make the hook that emits code for another device, or for the program's own."""

    def hook(recorder: Recorder, when: When) -> AbstractContextManager[None]:
        return _emit(recorder, when, None if device is None else device(recorder), cores)

    return hook


@contextmanager
def _emit(recorder: Recorder, when: When, there: Elsewhere | None, most: int | None) -> Iterator[None]:
    """Make Inductor emit code and build nothing; at the end, wait for pending code generation."""
    cores = Cores(most)
    codegen = Codegen(recorder, cores, None if there is None else there.compiler(cores))
    with ExitStack() as patches:

        def install(compile_fx: ModuleType) -> None:
            if there is None:
                tuning = unmeasured(recorder)
            else:
                tuning = listed(recorder, there)
            inside = _configured(tuning)
            if there is not None:
                inside = partial(there.emitting, inside)
            backwards = patches.enter_context(Backwards.collected(recorder, inside))
            emitter = _Emitter(compile_fx.compile_fx, recorder, tuning, backwards, inside, there)
            patches.enter_context(patched(compile_fx, "compile_fx", emitter))
            # Patch this last, so that an unbuilt graph never runs as if it were built.
            _build_nothing(patches, codegen, recorder, emitter.is_active)

        if there is not None:
            patches.enter_context(there.patches(when))
        # With one thread, torch starts no pool of compile workers (async_compile.py, 2.13, `get_compile_threads`),
        # which would have nothing to build.
        when("torch._inductor.config", lambda config: patches.enter_context(patched(config, "compile_threads", 1)))
        when("torch._inductor.compile_fx", install)
        try:
            yield
        finally:
            try:
                codegen.wait()
            finally:  # forks still run if waiting was interrupted
                codegen.end()
                cores.close()


def _configured(tuning: Tuning) -> Context:
    """Return a context in which Inductor times nothing and assumes that the compiler supports the CPU's vector ISA."""
    from torch._inductor import config

    # Without an answer, torch compiles a probe for each vector ISA (cpu_vec_isa.py, 2.13, `__bool__impl`).
    overrides = {**tuning.off, "cpp.vec_isa_ok": True}

    @contextmanager
    def inside() -> Iterator[None]:
        with config.patch(overrides), tuning.instead():
            yield

    return inside


class _Emitter:
    """Replaces `compile_fx`."""

    def __init__(
        self,
        original: Any,
        recorder: Recorder,
        tuning: Tuning,
        backwards: Backwards,
        inside: Context,
        there: Elsewhere | None,
    ) -> None:
        self._original = original
        self._recorder = recorder
        self._signature = inspect.signature(original)
        self._tuning = tuning
        self._backwards = backwards
        self._inside = inside
        self._there = there
        self._own = threading.local()

    def is_active(self) -> bool:
        """Whether this thread is compiling a graph that will run eagerly."""
        return bool(getattr(self._own, "active", False))

    def __call__(self, model: Any, example_inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if self.is_active():  # compile_fx calls itself to apply settings
            return self._original(model, example_inputs, *args, **kwargs)
        eager = _copied(model)  # compile_fx changes its argument
        records_guards = self._recorder.keeps("codegen") and has_hinted_symbols(model)  # a guard may fix a symbol
        # By thread, since two threads may compile, and only one of them through here.
        self._own.active = True
        try:
            with (
                _paused_collector(),
                self._inside(),
                self._backwards.of_one_graph() as pending,
                # Innermost: it collects the guards that compiling this graph adds.
                late_guards() as added,
            ):
                self._emit(model, example_inputs, *args, **kwargs)
        finally:
            self._own.active = False
        if records_guards:
            self._recorder.add(InductorGuardsSeen(seen=True, added=tuple(added), whole=True))
        if not self._recorder.keeps("codegen"):  # a backward compiled later adds no guard
            return runner_of(eager)
        return self._backwards.triggering(self._running(eager), pending)

    def _running(self, eager: Any) -> Callable[..., Any]:
        return runner_of(eager, None if self._there is None else self._there.running(eager))

    def _emit(self, model: Any, example_inputs: Any, *args: Any, **kwargs: Any) -> None:
        with nullcontext() if self._there is None else self._there.tracing(example_inputs):
            if self._there is None:
                inputs = example_inputs
            else:
                inputs = self._there.moved(model, example_inputs)
            call = self._signature.bind(model, inputs, *args, **kwargs)
            if self._recorder.keeps("codegen"):
                tuning = self._tuning
            else:
                tuning = replace(self._tuning, problem=lambda: None)
            call.arguments["config_patches"] = tuning.allowed(call.arguments.get("config_patches") or {})
            self._original(*call.args, **call.kwargs)


def _copied(model: Any) -> Any:
    """Copy a graph module but not its tensors."""
    import torch

    # `GraphModule` takes the parameters that the graph names from `model`, so both graphs share them.
    copied = torch.fx.GraphModule(model, copy.deepcopy(model.graph))
    # A new GraphModule has an empty `meta` (fx/graph_module.py, 2.13).
    if RUNNER in model.meta:
        copied.meta[RUNNER] = model.meta[RUNNER]
    return copied


@contextmanager
def _paused_collector() -> Iterator[None]:
    """Pause the cyclic garbage collector: Inductor creates millions of small objects and hardly any cycles."""
    # A program that turned it off would find it on afterwards.
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


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
        if hasattr(code, "value"):
            text = code.value
        else:
            text = str(code)
        # Torch logs the code after it has written the file of the module, which there is none of here.
        trace_structured("inductor_output_code", lambda: {"filename": ""}, payload_fn=lambda: text)
        self._recorder.add(CodegenEnded(current_stage(), seconds))
        if self._compiler is None:
            return []
        return self._compiler.jobs(text, PartIdentity.under_way())

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
        # Everything, since a fork ends without a word, whatever happens in it.
        except BaseException as error:
            self._recorder.add(CodegenFailed(current_stage(), kind_and_message(error)))
        finally:
            self._cores.release()

    def _runs(self, pid: int, *, block: bool = False) -> bool:
        status = exit_status(pid, block=block)
        if status is not None and status < 0:  # it was killed and has not returned its core
            self._cores.release()
        return status is None


def _build_nothing(patches: ExitStack, codegen: Codegen, recorder: Recorder, is_active: Callable[[], bool]) -> None:
    from torch._guards import CompileContext
    from torch._inductor.cpu_vec_isa import VecISA
    from torch._inductor.graph import GraphLowering

    build = GraphLowering.compile_to_module

    # Torch compiles a probe to check whether the compiler supports the CPU's vector ISA; no compiler runs here.
    patches.enter_context(patched(VecISA, "check_build", lambda _self, _code: True))

    def compile_to_module(graph: Any) -> Any:
        if CompileContext.current_compile_id() is None and not is_active():
            # torch.compiler.precompile needs the module (2.14, _inductor/standalone_compile.py, `compile_to_python`).
            recorder.problem(_AHEAD)
            return build(graph)
        # A graph lowered for its guards alone needs no code; see dynamo/eager_backend.py.
        if recorder.keeps("codegen"):
            codegen.generate(graph)
        else:
            add_late_guards(graph)
        # The runner is for CUDA graphs, which wrap the parts of a module (2.11, output_code.py:309).
        runner = SimpleNamespace(recursively_apply_fns=_nothing, partitions=[])
        return SimpleNamespace(call=_not_built, runner=runner, __file__="")

    patches.enter_context(patched(GraphLowering, "compile_to_module", compile_to_module))


def _nothing(_functions: Any) -> None:
    """Replace the method with which a built module wraps its parts."""


def _not_built(*_args: Any) -> Any:
    msg = "ctrace emitted this graph without building it; it should have run eagerly. Please report this."

    raise RuntimeError(msg)


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
