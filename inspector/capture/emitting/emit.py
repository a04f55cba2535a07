"""Emitting is not executing: generate every kernel's source, build nothing, and run the graphs eagerly.

`compile_fx` is where a graph enters Inductor (2.13, _inductor/compile_fx.py:2685). It goes its
whole way, AOTAutograd, lowering, fusion, code generation, so that guards, failures and shapes are those of a real
compile. Only the last step, building and loading the module (`GraphLowering.compile_to_module`, graph.py:2662), is left
out, and what Dynamo gets back is a copy of the graph as it was, to be run eagerly: the same numbers as without
torch.compile.

Where only guards are asked for (backends.py: `tracing`), code generation is left out too; see guardlowering.py.

What becomes of Inductor's tuning where nothing is built and run: choices that it would make by timing.
"""

import copy
import gc
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from types import ModuleType, SimpleNamespace
from typing import Any, cast

from ctrace.inspector.capture.core.cores import Cores
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.source import Source, When
from ctrace.inspector.capture.emitting.backward import Backwards
from ctrace.inspector.capture.emitting.codegen import Codegen
from ctrace.inspector.capture.guards.lowering import add_late_guards
from ctrace.inspector.capture.virtual.choices.flex import trainable
from ctrace.inspector.capture.virtual.compiling.compile_kernels import Metal
from ctrace.inspector.capture.virtual.move_graph import move
from ctrace.inspector.capture.virtual.refusals import graph_name, without_code
from ctrace.inspector.capture.virtual.stand_ins import StandIns
from ctrace.inspector.capture.virtual.tuning import can_be_left_open, left_open
from ctrace.inspector.capture.virtual.virtual_gpu import VirtualGpu
from ctrace.inspector.gpus.gpu import TargetGpu

_TUNING = (
    "max_autotune",
    "max_autotune_gemm",
    "max_autotune_pointwise",
    "coordinate_descent_tuning",
    "benchmark_fusion",
)
"""Switches of torch._inductor.config that have choices timed, which only built kernels can be."""
_PROCESSES = ("autotune_in_subproc", "pipeline_max_autotune_gemm", "distributed_max_autotune_gemm")
"""Switches that have candidates built and timed in processes of their own, beside the lowering."""
_SAID = ("max_autotune", "max_autotune_gemm", "max_autotune_pointwise", "coordinate_descent_tuning")


@dataclass(frozen=True, slots=True)
class Tuning:
    """Which switches are off while a graph is compiled, and what is done in place of timing."""

    off: dict[str, bool]
    instead: Callable[[], AbstractContextManager[None]]
    problem: Callable[[], None]
    """Says that tuning was asked for and not done."""

    def allowed(self, patches: dict[str, Any]) -> dict[str, Any]:
        """Give what is left of the settings of one compilation, as `torch.compile` was given them."""
        from torch._inductor import config

        if any(patches.get(name, getattr(config, name, False)) for name in _SAID if name in self.off):
            self.problem()
        return {name: value for name, value in patches.items() if name not in self.off}


def unmeasured(recorder: Recorder) -> Tuning:
    """Tune nothing."""
    what = (
        "autotuning was not measured: choices can only be timed on built kernels (--build); "
        "--target lists the candidates for a GPU"
    )
    return Tuning(_off(_TUNING), nullcontext, lambda: recorder.problem(what))


def listed(recorder: Recorder) -> Tuning:
    """List the candidates of each choice, for a GPU that is presented."""
    if can_be_left_open():
        return Tuning(_off(_PROCESSES), lambda: left_open(recorder), lambda: None)
    what = "the candidates of autotuning could not be listed: this torch chooses between them in another way"
    return Tuning(_off(_TUNING), nullcontext, lambda: recorder.problem(what))


def _off(names: tuple[str, ...]) -> dict[str, bool]:
    from torch._inductor import config

    return {name: False for name in names if hasattr(config, name)}


Context = Callable[[], AbstractContextManager[Any]]


def emitting(gpu: TargetGpu | None, cores: int | None = None) -> Source:
    """Make the source that emits code: for `gpu`, or for the device that the program uses."""

    def source(recorder: Recorder, when: When) -> AbstractContextManager[None]:
        return _emit(recorder, when, None if gpu is None else VirtualGpu(gpu, recorder), cores)

    return source


@contextmanager
def _emit(recorder: Recorder, when: When, gpu: VirtualGpu | None, most: int | None) -> Iterator[None]:
    """Have Inductor emit code and build none; wait at the end for code that is still being generated."""
    cores = Cores(most)
    codegen = Codegen(recorder, cores, None if gpu is None else Metal(recorder, gpu, cores))
    with ExitStack() as patches:

        def install(compile_fx: ModuleType) -> None:
            tuning = unmeasured(recorder) if gpu is None else listed(recorder)
            inside = _configured(tuning) if gpu is None else _for_target(recorder, gpu, _configured(tuning))
            backwards = patches.enter_context(Backwards.collected(recorder, inside))
            emitter = _Emitter(compile_fx.compile_fx, recorder, tuning, backwards, inside, gpu)
            patches.enter_context(patched(compile_fx, "compile_fx", emitter))
            # Last, so that a graph that is not built is never one that should run.
            _build_nothing(patches, codegen, recorder)

        if gpu is not None:
            patches.enter_context(trainable(recorder, when))
        when("torch._inductor.config", lambda config: patches.enter_context(patched(config, "compile_threads", 1)))
        when("torch._inductor.compile_fx", install)
        try:
            yield
        finally:
            try:
                codegen.wait()
            finally:  # where waiting was interrupted, some still run
                codegen.end()
                cores.close()


def _configured(tuning: Tuning) -> Context:
    """Give a context in which Inductor times nothing and takes the compiler to know what the processor can do."""
    from torch._inductor import config

    overrides = {**tuning.off, "cpp.vec_isa_ok": True}

    @contextmanager
    def inside() -> Iterator[None]:
        with config.patch(overrides), tuning.instead():
            yield

    return inside


def _for_target(recorder: Recorder, gpu: VirtualGpu, configured: Context) -> Context:
    """Give a context in which the GPU is there, too, and in which a failure to emit does not end the program."""

    @contextmanager
    def inside() -> Iterator[None]:
        with gpu.present(), configured(), without_code(recorder, gpu.facts.name):
            yield

    return inside


class _Emitter:
    """Stands in for `compile_fx`."""

    def __init__(
        self,
        original: Any,
        recorder: Recorder,
        tuning: Tuning,
        backwards: Backwards,
        inside: Context,
        gpu: VirtualGpu | None,
    ) -> None:
        self._original = original
        self._recorder = recorder
        self._signature = inspect.signature(original)
        self._tuning = tuning
        self._backwards = backwards
        self._inside = inside
        self._gpu = gpu
        self._own = threading.local()

    def __call__(self, model: Any, example_inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(self._own, "active", False):  # compile_fx calls itself to apply configuration
            return self._original(model, example_inputs, *args, **kwargs)
        eager = _copied(model)  # compile_fx owns, and changes, what it is given
        self._own.active = True
        try:
            with _paused_collector(), self._inside(), self._backwards.of_one_graph() as pending:
                self._emit(model, example_inputs, *args, **kwargs)
        finally:
            self._own.active = False
        if not self._recorder.keeps("codegen"):  # a backward that is compiled later adds no guard
            return eager.forward
        return self._backwards.triggering(self._running(eager), pending)

    def _running(self, eager: Any) -> Callable[..., Any]:
        """Return what runs a graph: as it is, or on the GPU's path, of which the CPU may not have every kernel."""
        if self._gpu is None:
            return cast(Callable[..., Any], eager.forward)
        return StandIns(self._recorder, self._gpu.facts.name).in_graph(eager, graph_name())

    def _emit(self, model: Any, example_inputs: Any, *args: Any, **kwargs: Any) -> None:
        with nullcontext() if self._gpu is None else self._gpu.tracing(example_inputs):
            given = example_inputs if self._gpu is None else move(model, example_inputs)
            call = self._signature.bind(model, given, *args, **kwargs)
            tuning = self._tuning if self._recorder.keeps("codegen") else replace(self._tuning, problem=lambda: None)
            call.arguments["config_patches"] = tuning.allowed(call.arguments.get("config_patches") or {})
            self._original(*call.args, **call.kwargs)


def _copied(model: Any) -> Any:
    """Copy a graph module but not its tensors."""
    import torch

    return torch.fx.GraphModule(model, copy.deepcopy(model.graph))


@contextmanager
def _paused_collector() -> Iterator[None]:
    """Stop the cyclic garbage collector: Inductor makes millions of small objects and hardly a cycle."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _build_nothing(patches: ExitStack, codegen: Codegen, recorder: Recorder) -> None:
    from torch._inductor.cpu_vec_isa import VecISA
    from torch._inductor.graph import GraphLowering

    # Torch compiles a probe to see whether the compiler can do what the processor can; here no compiler is asked.
    patches.enter_context(patched(VecISA, "check_build", lambda _self, _code: True))

    def compile_to_module(graph: Any) -> Any:
        if recorder.keeps("codegen"):
            codegen.generate(graph)
        else:
            add_late_guards(graph)
        # The runner is for CUDA graphs, whose wrappers are put around the parts of a module (2.11, output_code.py:309).
        runner = SimpleNamespace(recursively_apply_fns=_nothing, partitions=[])
        return SimpleNamespace(call=_not_built, runner=runner, __file__="")

    patches.enter_context(patched(GraphLowering, "compile_to_module", compile_to_module))


def _nothing(_functions: Any) -> None:
    """Stand in for what a built module would do with the functions that wrap its parts."""


def _not_built(*_args: Any) -> Any:
    msg = "ctrace emitted this graph and did not build it; it should have run eagerly. Please report this."
    raise RuntimeError(msg)
