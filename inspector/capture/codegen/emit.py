"""Emitting is not executing: generate every kernel's source, build nothing, and run the graphs eagerly.

A graph enters Inductor in `compile_fx` (2.13, _inductor/compile_fx.py:2685) and passes through AOTAutograd, lowering,
fusion and code generation, so guards, failures and shapes are those of a real compilation. Only the last step is
skipped: building and loading the module (`GraphLowering.compile_to_module`, graph.py:2662). Dynamo gets a copy of the
original graph to run eagerly, with the same numbers as without torch.compile. Choices that Inductor would make by
timing are listed for a target GPU, and otherwise not made (`Tuning`).

If only guards are needed (`tracing` in guards/eager_backend.py), code generation is skipped, too; see
guards/lowering.py.
"""

import copy
import gc
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.capture.codegen.backward import Backwards
from ctrace.inspector.capture.codegen.elsewhere import Elsewhere
from ctrace.inspector.capture.codegen.generate import Codegen
from ctrace.inspector.capture.core.cores import Cores
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.source import Source, When
from ctrace.inspector.capture.guards.eager_backend import RUNNER, runner_of
from ctrace.inspector.capture.guards.lowering import add_late_guards, has_hinted_symbols, late_guards
from ctrace.inspector.facts.events.run_events import InductorGuardsSeen

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


def emitting(device: Device | None, cores: int | None = None) -> Source:
    """Make the source that emits code for another device, or for the program's own."""

    def source(recorder: Recorder, when: When) -> AbstractContextManager[None]:
        return _emit(recorder, when, None if device is None else device(recorder), cores)

    return source


@contextmanager
def _emit(recorder: Recorder, when: When, there: Elsewhere | None, most: int | None) -> Iterator[None]:
    """Make Inductor emit code and build nothing; at the end, wait for pending code generation."""
    cores = Cores(most)
    codegen = Codegen(recorder, cores, None if there is None else there.compiler(cores))
    with ExitStack() as patches:

        def install(compile_fx: ModuleType) -> None:
            tuning = unmeasured(recorder) if there is None else listed(recorder, there)
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
            inputs = example_inputs if self._there is None else self._there.moved(model, example_inputs)
            call = self._signature.bind(model, inputs, *args, **kwargs)
            tuning = self._tuning if self._recorder.keeps("codegen") else replace(self._tuning, problem=lambda: None)
            call.arguments["config_patches"] = tuning.allowed(call.arguments.get("config_patches") or {})
            self._original(*call.args, **call.kwargs)


def _copied(model: Any) -> Any:
    """Copy a graph module but not its tensors."""
    import torch

    # `GraphModule` takes the parameters that the graph names from `model`, so both graphs share them.
    copied = torch.fx.GraphModule(model, copy.deepcopy(model.graph))
    if RUNNER in model.meta:
        copied.meta[RUNNER] = model.meta[RUNNER]
    return copied


@contextmanager
def _paused_collector() -> Iterator[None]:
    """Pause the cyclic garbage collector: Inductor creates millions of small objects and hardly any cycles."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


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
        # A graph lowered for its guards alone needs no code; see guards/lowering.py.
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
