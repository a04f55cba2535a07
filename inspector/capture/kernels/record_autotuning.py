"""Record the choices that Inductor has for an operation, what timing them gave, and which one it takes (`autotuning`).

A lowering passes its choices to `AlgorithmSelectorCache.__call__`, which times them in `do_autotuning`: at once, or,
where a template may absorb other ops, when the scheduler asks its `MultiTemplateBuffer` for times (2.11 to 2.15,
_inductor/select_algorithm.py, ir.py). With `--target`, nothing is timed: see `gpus/child/gpu_tuning.py`.

`RefusedTemplates` records which templates torch does not try, and why. Lowerings ask `use_..._template` of
torch/_inductor/utils.py (2.11 to 2.15), each through the name in its own module. An answer does not say why, so the
conditions are read again, each alone, where reading them changes nothing.

`Samples` has each run that torch times when it measures a choice; torch itself keeps one number for all runs.
`benchmark_cpu` takes the median of its runs, `InductorBenchmarker.benchmark_gpu` the minimum of its pairs of events,
first of a few runs to estimate, then of the runs that count (2.11 to 2.15, _inductor/runtime/benchmarking.py). Both are
read where torch reduces them, after the runs, so that reading slows no run down. Other ways to measure, such as
`TorchProfilerBenchmarker`, have one number from the start.
"""

import inspect
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from itertools import count
from statistics import quantiles
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Struct, field
from msgspec.structs import asdict

from ctrace.inspector.capture.core.environment import library_prefixes
from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.core.hook import When
from ctrace.inspector.capture.core.node_lines import stack_of
from ctrace.inspector.capture.core.part import PartIdentity
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.facts.autotuning import (
    ChoicesListed,
    ChoicesTimed,
    ChoiceTaken,
    ChoiceTiming,
    ListedChoice,
    TimeSpread,
    TunedInput,
    Untried,
)
from ctrace.inspector.source.stacks import user_lines


class Samples:
    """Collects the runs of each measurement, by thread."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._now = threading.local()

    @contextmanager
    def reading(self) -> Iterator[list[float]]:
        """Yield the milliseconds of the runs that this block measures; empty: torch keeps one number."""
        outer = getattr(self._now, "runs", None)
        runs: list[float] = []
        self._now.runs = runs
        try:
            yield runs
        finally:
            self._now.runs = outer

    def install(self, benchmarking: ModuleType, patches: ExitStack) -> None:
        """Read the runs of every measurement of torch's module `benchmarking`."""
        # `median` is a name in the module, which `benchmark_cpu` looks up at each call.
        median, benchmarker = benchmarking.median, benchmarking.InductorBenchmarker
        shortest = benchmarker.get_event_pairs_min_timing

        def read_median(runs: Sequence[float]) -> float:
            self._take(runs)
            return float(median(runs))

        def read_shortest(self_: Any, event_pairs: Any) -> Any:
            # Reading the events twice costs nothing: they have ended when torch asks for the minimum.
            if getattr(self._now, "runs", None) is not None:
                with self._recorder.watching("the runs of a choice"):
                    self._take([start.elapsed_time(end) for start, end in event_pairs])
            return shortest(self_, event_pairs)

        patches.enter_context(patched(benchmarking, "median", read_median))
        patches.enter_context(patched(benchmarker, "get_event_pairs_min_timing", read_shortest))

    def _take(self, runs: Sequence[float]) -> None:
        kept = getattr(self._now, "runs", None)
        if kept is not None:
            # Replaces: torch estimates with a few runs first, and only the last group counts.
            kept[:] = runs


def spread(runs: Sequence[float]) -> dict[str, Any]:
    """Sum up the milliseconds of runs for the log, as the fields of `TimeSpread`; empty for fewer than two runs."""
    if len(runs) < 2:
        return {}
    # Inclusive, as these are all the runs and no sample of more.
    low, median, high = quantiles(runs, n=4, method="inclusive")
    return asdict(TimeSpread(len(runs), min(runs) / 1e3, low / 1e3, median / 1e3, high / 1e3))


# Chosen: an error of Triton's compiler quotes the whole kernel.
_LONGEST = 2000
"""Letters of an error's text."""


# Each of these imports the functions by name, so that a patch of utils.py would reach none of them.
MODULES = (
    "torch._inductor.kernel.mm",
    "torch._inductor.kernel.bmm",
    "torch._inductor.kernel.conv",
    "torch._inductor.kernel.mm_plus_mm",
    "torch._inductor.mkldnn_lowerings",
)
_FAMILIES = {
    "use_triton_template": ("Triton templates", "TRITON"),
    "use_triton_tma_template": ("Triton templates with TMA", "TRITON"),
    "use_cutlass_template": ("CUTLASS templates", "CUTLASS"),
    "use_nv_universal_gemm_template": ("NVIDIA Universal GEMM templates", "NVGEMM"),
    "use_ck_gemm_template": ("Composable Kernel templates", "CK"),
    "use_ck_conv_template": ("Composable Kernel templates", "CK"),
    "use_cpp_gemm_template": ("C++ templates", "CPP"),
    "use_cpp_bmm_template": ("C++ templates", "CPP"),
}
# The dtypes of `use_triton_template` and of `use_cpp_gemm_template` (_inductor/utils.py, 2.13).
_FLOATS = ("float16", "bfloat16", "float32")
_CPP = (*_FLOATS, "uint8", "int8")
_NO_REASON = "torch does not say why"


@contextmanager
def autotuning(recorder: Recorder, when: When) -> Iterator[None]:
    """Record each operation's choices, sweep and winner."""
    samples = Samples(recorder)
    hooks = _Hooks(recorder, samples)
    with ExitStack() as patches:
        installers = {
            "torch._inductor.runtime.benchmarking": samples.install,
            "torch._inductor.select_algorithm": hooks.on_sweeps,
            "torch._inductor.autotune_process": hooks.on_processes,
            "torch._inductor.ir": hooks.on_late_choices,
            "torch._inductor.scheduler": hooks.on_last_choices,
            **dict.fromkeys(MODULES, hooks.untried.install),
        }
        for name, install in installers.items():
            when(name, partial(install, patches=patches))
        yield


class _Operation(Struct, frozen=True):
    """An operation with recorded choices."""

    part: PartIdentity
    number: int


class _Sweep(Struct):
    """The sweep under way in a thread: what is recorded of each choice until all are timed."""

    spreads: dict[int, dict[str, Any]] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    is_measured: bool = False
    """Whether torch times the choices, instead of finding all times in its cache."""
    is_queued: bool = False
    """Whether other processes time the choices, and torch reports it later (`pipeline_max_autotune_gemm`)."""
    compile_seconds: float | None = None
    timing_seconds: float | None = None


class _Hooks:
    """The hooks on torch; choices and buffers are compared by identity."""

    def __init__(self, recorder: Recorder, samples: Samples) -> None:
        self._recorder = recorder
        self._samples = samples
        self.untried = RefusedTemplates(recorder)
        self._numbers = count()
        self._operations: WeakKeyDictionary[Any, _Operation] = WeakKeyDictionary()
        """By choice."""
        self._not_compiled: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        """Errors by choice: equal choices of two operations are built once."""
        self._now = threading.local()

    def on_sweeps(self, module: ModuleType, patches: ExitStack) -> None:
        """Watch lowerings pass choices to torch, and torch build and time them."""
        cache = module.AlgorithmSelectorCache
        # `__call__` has the operation and all choices; `do_autotuning` brackets a sweep; `benchmark` runs only if the
        # cache has no times (select_algorithm.py, 2.13, `lookup`).
        hooks = (("__call__", self._selecting), ("do_autotuning", self._swept), ("benchmark", self._measured))
        for name, make in hooks:
            patches.enter_context(patched(cache, name, make(getattr(cache, name))))
        # A class method and a static method: `getattr` returns plain callables, so they are wrapped again.
        timed, logged = cache.benchmark_choice, cache.log_results
        patches.enter_context(patched(cache, "benchmark_choice", classmethod(self._timed(timed.__func__))))
        patches.enter_context(patched(cache, "log_results", staticmethod(self._logged(logged))))
        # Torch collects the errors of precompilation in a list, passes it here, and drops it.
        failed = "_log_autotune_exceptions"
        patches.enter_context(patched(module, failed, self._not_built(getattr(module, failed))))

    def on_processes(self, module: ModuleType, patches: ExitStack) -> None:
        """Watch choices that fail in processes of their own (`autotune_in_subproc`)."""
        # `target` catches what `get` raises and returns infinity (autotune_process.py, 2.13), so the error is read in
        # between.
        pool, process = module.TuningProcessPool, module.TuningProcess
        target, get = pool.target, process.get

        def watched_target(self_: Any, choice: Any) -> Any:
            outer, self._now.choice = getattr(self._now, "choice", None), choice
            try:
                return target(self_, choice)
            finally:
                self._now.choice = outer

        def watched_get(self_: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return get(self_, *args, **kwargs)
            except Exception as error:
                choice = getattr(self._now, "choice", None)
                if choice is not None:
                    self._not_compiled[choice] = kind_and_message(error)[:_LONGEST]
                raise

        patches.enter_context(patched(pool, "target", watched_target))
        patches.enter_context(patched(process, "get", watched_get))

    def on_late_choices(self, module: ModuleType, patches: ExitStack) -> None:
        """Watch the scheduler take a template."""
        # After a fusion, the scheduler finalizes the buffer with the template that won together with its epilogue.
        buffer = module.MultiTemplateBuffer
        one, several, fastest = (
            buffer.finalize_as_triton_caller,
            buffer.finalize_as_triton_callers,
            buffer.get_min_choice,
        )

        def finalize_one(self_: Any, caller: Any) -> Any:
            self._take(caller, fused=not getattr(self._now, "is_last", False))
            return one(self_, caller)

        def finalize_several(self_: Any, callers: Any) -> Any:
            self._take(callers.get(None), fused=not getattr(self._now, "is_last", False))
            return several(self_, callers)

        def get_min_choice(self_: Any, *args: Any, **kwargs: Any) -> Any:
            found = fastest(self_, *args, **kwargs)
            if getattr(self._now, "is_last", False):
                self._take(found[0])
            return found

        patches.enter_context(patched(buffer, "finalize_as_triton_caller", finalize_one))
        patches.enter_context(patched(buffer, "finalize_as_triton_callers", finalize_several))
        patches.enter_context(patched(buffer, "get_min_choice", get_min_choice))

    def on_last_choices(self, module: ModuleType, patches: ExitStack) -> None:
        """Watch the scheduler choose where no fusion has chosen."""
        # What no fusion has decided, the scheduler decides here, once, after the last round. An extern kernel has no
        # `finalize`: torch replaces the node, so `get_min_choice` is watched while this runs.
        name = "finalize_multi_template_buffers"
        original = getattr(module.Scheduler, name)

        def finalize(scheduler: Any) -> Any:
            self._now.is_last = True
            try:
                return original(scheduler)
            finally:
                self._now.is_last = False

        patches.enter_context(patched(module.Scheduler, name, finalize))

    def _selecting(self, original: Any) -> Any:
        signature = inspect.signature(original)

        @wraps(original)
        def select(*args: Any, **kwargs: Any) -> Any:
            choices: list[Any] = []
            with self._recorder.watching("the choices of an operation"):
                arguments = signature.bind(*args, **kwargs).arguments
                choices = arguments["choices"]
                self._record_choices(arguments["name"], choices, arguments["input_nodes"])
            # Torch 2.11 returns the choice only if asked; later versions return it in a tuple.
            if "return_choice" in signature.parameters and not kwargs.get("return_choice"):  # 2.11
                found = original(*args, **{**kwargs, "return_choice": True})
                node, choice = found if isinstance(found, tuple) else (found, None)
            else:
                node = original(*args, **kwargs)
                choice = None
                if isinstance(node, tuple):
                    choice = node[-1]
            # A single choice is taken without timing; a torch that returns its node alone does not name it.
            if choice is None and len(choices) == 1:
                choice = choices[0]
            self._take(choice)  # None: the scheduler chooses later
            return node

        return select

    def _record_choices(self, name: str, choices: list[Any], nodes: list[Any]) -> None:
        from torch._inductor import config
        from torch._inductor.virtualized import V

        operation = _Operation(PartIdentity.under_way(), next(self._numbers))
        for choice in choices:
            # Choices are torch's objects, and alive as long as torch may take one of them.
            self._operations[choice] = operation
        # The node that is lowered; a choice made later, while scheduling, has none.
        node = getattr(V.graph, "current_node", None)
        stack = None
        if node is not None:
            stack = stack_of(node)
        listed = ChoicesListed(
            stage=operation.part.stage,
            number=operation.number,
            op=name,
            inputs=tuple(map(_input, nodes)),
            choices=tuple(map(_choice, choices)),
            untried=self.untried.of(node),
            lines=user_lines([stack], library_prefixes()) if stack else (),
            is_on=bool(config.max_autotune or config.max_autotune_gemm),
        )
        operation.part.add(self._recorder, listed)

    def _measured(self, original: Any) -> Any:
        @wraps(original)
        def benchmark(*args: Any, **kwargs: Any) -> Any:
            sweep = getattr(self._now, "sweep", None)
            if sweep is not None:
                sweep.is_measured = True
            return original(*args, **kwargs)

        return benchmark

    def _swept(self, original: Any) -> Any:
        signature = inspect.signature(original)

        @wraps(original)
        def do_autotuning(*args: Any, **kwargs: Any) -> Any:
            # Sweeps nest: timing a choice that is a graph may lower operations with choices of their own.
            outer, sweep = getattr(self._now, "sweep", None), _Sweep()
            self._now.sweep = sweep
            began, times = time.perf_counter(), None
            try:
                times = original(*args, **kwargs)
                sweep.is_queued = not isinstance(times, dict)
                return times
            finally:
                self._now.sweep = outer
                with self._recorder.watching("the times of choices"):
                    arguments = signature.bind(*args, **kwargs).arguments
                    seconds = time.perf_counter() - began
                    # Times in other processes are not known yet; `log_results` brings them.
                    if not sweep.is_queued:
                        self._record_sweep(arguments["choices"], times or {}, sweep, seconds, arguments)

        return do_autotuning

    def _record_sweep(
        self, choices: list[Any], times: dict[Any, float], sweep: _Sweep, seconds: float, arguments: dict[str, Any]
    ) -> None:
        operation = next((self._operations[each] for each in choices if each in self._operations), None)
        # With `multi_kernel_hints`, torch times the same choices again for other sizes; the first sweep is that of the
        # program.
        if operation is None or arguments.get("hint_override") is not None:
            return
        timed = ChoicesTimed(
            stage=operation.part.stage,
            number=operation.number,
            timings=tuple(self._outcome(each, times, sweep) for each in choices),
            is_cached=bool(times) and not sweep.is_measured,
            seconds=seconds,
            compile_seconds=sweep.compile_seconds,
            timing_seconds=sweep.timing_seconds,
        )
        operation.part.add(self._recorder, timed)

    def _outcome(self, choice: Any, times: dict[Any, float], sweep: _Sweep) -> ChoiceTiming:
        """Return what became of one choice; `seconds` is torch's own time, None if it has none."""
        took = times.get(choice)
        # Infinity is torch's sign for a choice that failed.
        has_time = took is not None and math.isfinite(took)
        # Errors of timing are the sweep's, since a choice is timed in each; those of building belong to the choice.
        error = sweep.errors.get(id(choice)) or self._not_compiled.get(choice, "")
        if has_time:
            error = ""
        return ChoiceTiming(
            choice.name,
            seconds=took / 1e3 if took is not None and has_time else None,
            is_built=not getattr(choice, "failed", False),
            has_run=has_time or took is None,
            error=error,
            **sweep.spreads.get(id(choice), {}),
        )

    def _timed(self, original: Any) -> Any:
        def benchmark_choice(cls: Any, choice: Any, *args: Any, **kwargs: Any) -> Any:
            sweep = getattr(self._now, "sweep", None)
            if sweep is None:
                return original(cls, choice, *args, **kwargs)
            with self._samples.reading() as runs:
                try:
                    return original(cls, choice, *args, **kwargs)
                except Exception as error:
                    sweep.errors[id(choice)] = kind_and_message(error)[:_LONGEST]
                    raise
                finally:
                    sweep.spreads[id(choice)] = spread(runs)

        return benchmark_choice

    def _logged(self, original: Any) -> Any:
        """Read the seconds that torch reports for a sweep; without a report, the times come from its cache."""
        signature = inspect.signature(original)

        @wraps(original)
        def log_results(*args: Any, **kwargs: Any) -> Any:
            sweep = getattr(self._now, "sweep", None)
            with self._recorder.watching("what autotuning costs"):
                arguments = signature.bind(*args, **kwargs).arguments
                if sweep is None:  # a sweep whose choices were queued
                    sweep, times = _Sweep(is_measured=True), arguments["timings"]
                    sweep.timing_seconds = arguments["elapse"]
                    sweep.compile_seconds = arguments["precompile_elapse"]
                    self._record_sweep(list(times), times, sweep, sweep.timing_seconds + sweep.compile_seconds, {})
                elif sweep.is_measured:
                    sweep.timing_seconds = arguments["elapse"]
                    sweep.compile_seconds = arguments["precompile_elapse"]
            return original(*args, **kwargs)

        return log_results

    def _not_built(self, original: Any) -> Any:
        def note(exceptions: Any) -> Any:
            with self._recorder.watching("choices that cannot be built"):
                for choice, error in exceptions:
                    self._not_compiled[choice] = kind_and_message(error)[:_LONGEST]
            return original(exceptions)

        return note

    def _take(self, choice: Any, *, fused: bool = False) -> None:
        """Record the choice that torch uses; `fused`: other ops were timed with it."""
        with self._recorder.watching("the choice that torch takes"):
            operation = None
            if choice is not None:
                operation = self._operations.get(choice)
            if operation is not None:
                taken = ChoiceTaken(operation.part.stage, operation.number, choice.name, fused)
                operation.part.add(self._recorder, taken)


_KINDS = {
    "TritonTemplateCaller": "triton",
    "ExternKernelCaller": "external",
    "CppTemplateCaller": "cpp",
    "SubgraphChoiceCaller": "graph",
    "CUTLASSTemplateCaller": "cutlass",
}


def _choice(choice: Any) -> ListedChoice:
    kind = _KINDS.get(type(getattr(choice, "_wrapped", choice)).__name__, "")
    return ListedChoice(choice.name, kind, str(choice.description or ""))


def _input(node: Any) -> TunedInput:
    """Describe an input; sizes may be symbols."""
    device = node.get_device()
    return TunedInput(
        shape=tuple(map(str, node.get_size())),
        stride=tuple(map(str, node.get_stride())),
        dtype=str(node.get_dtype()).removeprefix("torch."),
        device="" if device is None else str(device.type),
    )


class RefusedTemplates:
    """Collects the templates that torch refuses for the operation under lowering."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._refused: WeakKeyDictionary[Any, dict[str, list[str]]] = WeakKeyDictionary()

    def of(self, node: Any) -> tuple[Untried, ...]:
        """Return the templates refused for a node of the graph under lowering."""
        refused = {}
        if node is not None:
            refused = self._refused.get(node, {})
        return tuple(Untried(family, tuple(reasons)) for family, reasons in refused.items())

    def install(self, module: ModuleType, patches: ExitStack) -> None:
        """Watch the `use_..._template` calls of one module with lowerings."""
        for name, (family, backend) in _FAMILIES.items():
            if hasattr(module, name):
                asked = self._watched(getattr(module, name), family, backend, is_conv=module.__name__.endswith("conv"))
                patches.enter_context(patched(module, name, asked))

    def _watched(self, original: Callable[..., Any], family: str, backend: str, *, is_conv: bool) -> Callable[..., Any]:
        signature = inspect.signature(original)

        def asked(*args: Any, **kwargs: Any) -> Any:
            answer = original(*args, **kwargs)
            if not answer:
                with self._recorder.watching("templates that torch does not try"):
                    arguments = signature.bind(*args, **kwargs).arguments
                    self._refuse(family, backend, arguments, is_conv=is_conv)
            return answer

        return asked

    def _refuse(self, family: str, backend: str, arguments: dict[str, Any], *, is_conv: bool) -> None:
        from torch._inductor.virtualized import V

        layout = arguments.get("layout") or arguments.get("output_layout")
        node = getattr(V.graph, "current_node", None)
        if layout is None or node is None or not _is_for(layout.device.type, backend):
            return
        reasons = list(_reasons(family, backend, layout, arguments, is_conv=is_conv)) or [_NO_REASON]
        self._refused.setdefault(node, {})[family] = reasons


def _is_for(device: str, backend: str) -> bool:
    """Whether templates of this kind exist for a device at all."""
    import torch

    if backend == "CPP":
        return device == "cpu"
    # Composable Kernel is AMD's: `<=` of two booleans reads "only if".
    return device != "cpu" and (backend == "CK") <= (torch.version.hip is not None)


def _reasons(family: str, backend: str, layout: Any, arguments: dict[str, Any], *, is_conv: bool) -> Iterator[str]:
    from torch._inductor import config, utils
    from torch._inductor.runtime.hints import DeviceProperties

    if not (config.max_autotune or config.max_autotune_gemm):
        yield "max_autotune is off"
    if is_conv:
        enabled = utils._use_conv_autotune_backend
    else:
        enabled = utils._use_autotune_backend
    if not enabled(backend):
        option = "max_autotune_conv_backends" if is_conv else "max_autotune_gemm_backends"
        yield f"not in {option} ({getattr(config, option)})"
    dtype = str(layout.dtype).removeprefix("torch.")
    if backend == "CPP":
        yield from _of_cpp(dtype, arguments)
        return
    # Torch caches the answer (`functools.cache`, 2.13), so asking again logs no second warning.
    if not utils.is_big_gpu(layout.device):
        processors = DeviceProperties.create(layout.device).multi_processor_count
        yield f"is_big_gpu is false: {processors} multiprocessors are too few for torch"
    if family == "Triton templates" and dtype not in (*_FLOATS, *_more(arguments)):
        yield f"they have no dtype {dtype}"
    if family.endswith("TMA") and not config.triton.enable_persistent_tma_matmul:
        yield "triton.enable_persistent_tma_matmul is off"


def _more(arguments: dict[str, Any]) -> Iterator[str]:
    if arguments.get("enable_int32"):
        yield "int32"
    if arguments.get("enable_float8"):
        yield from ("float8_e4m3fn", "float8_e5m2")


def _of_cpp(dtype: str, arguments: dict[str, Any]) -> Iterator[str]:
    from torch._inductor import config

    if not config.cpp.weight_prepack:
        yield "cpp.weight_prepack is off"
    if dtype not in _CPP:
        yield f"they have no dtype {dtype}"
    if arguments.get("require_constant_mat2", True) and not _is_constant(arguments["mat2"]):
        yield "the weight is not a constant of the graph, which freezing makes it in inference without gradients"


def _is_constant(box: Any) -> bool:
    """Whether a matrix is stored with the graph, as torch requires of weights that it packs."""
    from torch._inductor import ir

    if isinstance(box, ir.BaseView):
        held = box.unwrap_view()
    else:
        held = box
    # A `TensorBox` holds a `StorageBox` or views of one, in any number.
    while isinstance(held, ir.TensorBox | ir.BaseView):
        if isinstance(held, ir.BaseView):
            held = held.unwrap_view()
        else:
            held = held.data
    return isinstance(held, ir.StorageBox) and bool(held.is_module_buffer())
