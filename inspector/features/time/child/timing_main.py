"""The measuring process: load the model, time each part of each scenario, and append the results to a file.

1. The model is compiled with a configuration; its graphs, breaks and CUDA graphs are reported, why torch skips CUDA
   graphs, which it decides while it compiles, and what it prints while it autotunes, which stays out of the terminal.
2. Results of a compiled call are compared with those in eager, as one number, and the peak memory of a call's tensors
   is measured.
3. Rounds of eager and compiled calls are timed (`capture/calls/timed_rounds.py`).
4. After all rounds, torch's profiler shows where the time of a call goes. It slows the program down, so these times are
   shares of a slower call, not parts of the measured one. Names of ranges are torch's: `TorchDynamo Cache Lookup`
   (csrc/dynamo/eval_frame_cpp.cpp), `Torch-Compiled Region` (_dynamo/convert_frame.py), `## Call CompiledFxGraph`
   (_inductor/output_code.py), read in 2.11 to 2.13.

Torch passes each reason for no CUDA graph to `log_cudagraph_skip_and_bump_counter` (_inductor/cudagraph_utils.py, 2.11
to 2.13). The modules that decide import this function by name, so it is patched in each of them.

Torch writes its table of choices and their statistics to stderr (2.11 to 2.15, _inductor/select_algorithm.py:
`log_results`, `_log_autotune_choices_stats`). Both only print and log, after the choices were timed.
"""

import ast
import gc
import io
import math
import os
import platform
import statistics
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr
from functools import partial, wraps
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.capture.calls import stopwatch
from ctrace.inspector.capture.calls.answering import place_of_failure
from ctrace.inspector.capture.calls.call_tensors import tensors
from ctrace.inspector.capture.calls.calling import called
from ctrace.inspector.capture.calls.compiler_names import check_backend, check_mode, enables_cuda_graphs
from ctrace.inspector.capture.calls.model_files import Loaded, load
from ctrace.inspector.capture.calls.stopwatch import synchronizer
from ctrace.inspector.capture.calls.timed_rounds import Bench, Compilations, run_rounds, warm_up
from ctrace.inspector.capture.calls.ways import Call, Way, gradients, training
from ctrace.inspector.capture.comparing.compare_results import leaves
from ctrace.inspector.capture.comparing.snapshots import taken
from ctrace.inspector.capture.comparing.state_copies import copied
from ctrace.inspector.capture.core.callers import without_our_frames
from ctrace.inspector.capture.core.exception_text import NO_MESSAGE, message, traceback_text, type_name
from ctrace.inspector.capture.core.imports import Preloaded, watch_imports
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.isolation.profiled_memory import cpu_peak
from ctrace.inspector.errors import TargetError, did_you_mean
from ctrace.inspector.features.time.events import (
    SIDES,
    AutotuningPrinted,
    Compiled,
    Differed,
    Done,
    Event,
    Failed,
    KernelUsed,
    Noted,
    Peaks,
    Setup,
    SharesMeasured,
    Skipped,
    line_of,
)
from ctrace.inspector.features.time.timing_model import CompileConfiguration, TimingRequest
from ctrace.inspector.runs.capture_request import Options

_SECONDS = 0.1
"""Total length of the profiled calls; each call produces many events."""
# Chosen: shares of a call do not get better beyond this, and the profiler keeps each event.
_MOST_CALLS = 20
_CPP = "cpp_fused"
_GUARDS, _RUNTIME, _WRAPPER, _LAUNCHES, _OPS, _KERNELS = "guards", "runtime", "wrapper", "launches", "ops", "kernels"
_RUNTIME_NAMES = ("Torch-Compiled Region", "Pregraph bytecode", "AOTDispatcher", "CompiledFunction", "Graph bytecode")
_LAUNCH_NAMES = (
    *("cudaLaunch", "cuLaunch", "cudaGraphLaunch", "cudaMemcpy", "cudaMemset", "cuMemcpy", "cuMemset"),
    *("hipLaunch", "hipModuleLaunch", "hipGraphLaunch", "hipExtModuleLaunch"),
)
# Chosen: the comparison of two configurations names three of them; the rest is there for --json.
_MOST_KERNELS = 200


class _Range(Struct, frozen=True):
    name: str
    start: int
    end: int


def shares_of(bench: Bench, side: int) -> SharesMeasured:
    """Profile calls of one side, and add up the time of each kind of range."""
    from torch.profiler import ProfilerActivity, profile

    # Short calls need many to be more than noise, and long ones few: a profile holds each of their events.
    count = max(1, min(int(_SECONDS / bench.single[side]), _MOST_CALLS))
    activities = [ProfilerActivity.CPU]
    on_gpu = bench.device == "cuda"
    if on_gpu:
        activities.append(ProfilerActivity.CUDA)
    calls, wait = bench.calls(count), synchronizer(bench.device)
    with _marked_cpp_kernels(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch 2.11 warns about profiler cycles; there is only one here
        with profile(activities=activities):  # the first profile of a process initializes the profiler
            bench.run(side, calls[:1])
            wait()
        with profile(activities=activities) as profiled:
            seconds = _timed(bench, side, calls, on_gpu=on_gpu)
            wait()
    kineto = None
    if profiled.profiler is not None:
        kineto = profiled.profiler.kineto_results
    events = []
    if kineto is not None:
        events = list(kineto.events())
    return _shares(bench, side, seconds, count, events, on_gpu=on_gpu)


def _timed(bench: Bench, side: int, calls: Sequence[Call], *, on_gpu: bool) -> float:
    """Return the seconds of a call: the median on a CPU; the mean on a GPU, which runs asynchronously."""
    if on_gpu:
        return bench.run(side, calls) / len(calls)
    # On a CPU, a call that another process interrupts changes no median.
    return statistics.median(bench.run(side, [call]) for call in calls)


def _shares(bench: Bench, side: int, seconds: float, count: int, events: list[Any], *, on_gpu: bool) -> SharesMeasured:
    cpu, gpu = _split(events)
    own = {name: _per_call(times, count) for name, times in _own_times(cpu).items()}

    def each(kind: str) -> float:
        return sum(time for name, (time, _) in own.items() if _kind(name) == kind) / 1e9

    measured = SharesMeasured(
        scenario=bench.scenario,
        part=bench.part,
        side=SIDES[side],
        call=seconds,
        ops=each(_OPS),
        kernel_list=tuple(_kernels(cpu, gpu, count, on_gpu=on_gpu)),
    )
    if side == 1:  # compiled
        measured = replace(measured, guards=each(_GUARDS), runtime=each(_RUNTIME), wrapper=each(_WRAPPER))
    if not on_gpu:
        return replace(measured, kernels=each(_KERNELS))
    launched = sum(number for name, (_, number) in own.items() if _kind(name) == _LAUNCHES)
    measured = replace(measured, launches=each(_LAUNCHES), launched=launched)
    busy = None
    if gpu:
        busy = _busy(gpu)
    if busy is None:
        return measured
    kernels = busy / count / 1e9
    return replace(measured, kernels=kernels, gaps=max(seconds - kernels, 0.0))


def _split(events: list[Any]) -> tuple[dict[int, list[_Range]], list[_Range]]:
    """Return the CPU's ranges, keyed by thread, and the GPU's ranges."""
    cpu: dict[int, list[_Range]] = defaultdict(list)
    gpu: list[_Range] = []
    for event in events:
        found = _Range(event.name(), event.start_ns(), event.start_ns() + event.duration_ns())
        # By the name of the type, so that a GPU counts whatever its maker.
        if "CPU" in str(event.device_type()):
            cpu[event.start_thread_id()].append(found)
        elif not _is_annotation(event, found.name):
            gpu.append(found)
    return cpu, gpu


def _is_annotation(event: Any, name: str) -> bool:
    """Whether a GPU event only repeats a range of the program, and is not work on the GPU."""
    is_marked = getattr(event, "is_user_annotation", None)
    return (is_marked is not None and is_marked()) or _kind(name) in (_GUARDS, _RUNTIME, _WRAPPER)


def _own_times(cpu: dict[int, list[_Range]]) -> dict[str, list[int]]:
    """Return the nanoseconds of each range, without those of nested ranges, keyed by name and in order."""
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for ranges in cpu.values():
        for each, inside in _nested(ranges):
            found[each.name].append((each.start, max(each.end - each.start - inside, 0)))
    return {name: [time for _, time in sorted(times)] for name, times in found.items()}


def _per_call(times: Sequence[int], calls: int) -> tuple[float, float]:
    """Return the nanoseconds of a range in one call, and how often it occurs there.

    If every call has the range equally often, add up the median of its first occurrences in all calls, the median of
    its second ones, and so on: a call that another process interrupts then changes nothing.
    """
    # Without a rest, the range occurs equally often in each call, so that the nth ones can be compared.
    each, left = divmod(len(times), calls)
    if left:
        return sum(times) / calls, len(times) / calls
    return sum(statistics.median(times[index::each]) for index in range(each)), float(each)


def _nested(ranges: list[_Range]) -> Iterator[tuple[_Range, int]]:
    """Yield each range of a thread with the nanoseconds of the ranges directly inside it."""
    open_: list[tuple[_Range, int]] = []
    # At the same start, the longer range comes first: it is the outer one.
    for each in sorted(ranges, key=lambda one: (one.start, -one.end)):
        while open_ and open_[-1][0].end <= each.start:
            yield open_.pop()
        if open_:
            outer, inside = open_[-1]
            # Clocks of ranges may differ by a little: what reaches beyond the outer range is not inside it.
            open_[-1] = outer, inside + min(each.end, outer.end) - each.start
        open_.append((each, 0))
    yield from reversed(open_)


def _kind(name: str) -> str:
    if name.startswith("TorchDynamo Cache Lookup"):
        return _GUARDS
    if name.startswith(_RUNTIME_NAMES):
        return _RUNTIME
    if name.startswith("## Call CompiledFxGraph"):
        return _WRAPPER
    if name.startswith(_LAUNCH_NAMES):
        return _LAUNCHES
    if name.startswith(_CPP):
        return _KERNELS
    if "::" not in name:
        return ""
    return _OPS


def _busy(gpu: list[_Range]) -> int:
    """Return the nanoseconds in which the GPU runs at least one kernel."""
    busy, until = 0, 0
    for each in sorted(gpu, key=lambda one: one.start):
        # Kernels of several streams overlap, and count once.
        busy += max(each.end - max(each.start, until), 0)
        until = max(until, each.end)
    return busy


def _kernels(cpu: dict[int, list[_Range]], gpu: list[_Range], count: int, *, on_gpu: bool) -> Iterator[KernelUsed]:
    """Yield the kernels of a call, the longest first: the GPU's, or C++ kernels and the outermost ops."""
    totals: dict[str, list[int]] = defaultdict(list)
    if on_gpu:
        for each in sorted(gpu, key=lambda one: one.start):
            totals[each.name].append(each.end - each.start)
    else:
        for each in _outermost_work(cpu):
            totals[each.name].append(each.end - each.start)
    largest = sorted(totals.items(), key=lambda item: -sum(item[1]))
    for name, times in largest[:_MOST_KERNELS]:
        seconds, number = _per_call(times, count)
        yield KernelUsed(name[:300], number, seconds / 1e9)


def _outermost_work(cpu: dict[int, list[_Range]]) -> Iterator[_Range]:
    """Yield ops and C++ kernels that are not inside another one."""
    for ranges in cpu.values():
        until = 0
        for each in sorted(ranges, key=lambda one: (one.start, -one.end)):
            if _kind(each.name) in (_OPS, _KERNELS) and each.start >= until:
                until = each.end
                yield each


@contextmanager
def _marked_cpp_kernels() -> Iterator[None]:
    """Make Inductor's C++ kernels appear in the profile: wrap the functions of wrapper modules that call them."""
    with ExitStack() as restored:
        codecache = sys.modules.get("torch._inductor.codecache")
        # Inductor keeps each wrapper module that it loaded there.
        for module in [] if codecache is None else codecache.PyCodeCache.modules:
            names = vars(module)
            kept = {name: value for name, value in names.items() if name.startswith(_CPP) and callable(value)}
            restored.callback(names.update, kept)
            names.update({name: _marked(name, value) for name, value in kept.items()})
        yield


def _marked(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    from torch.profiler import record_function

    def call(*arguments: Any) -> Any:
        with record_function(name):
            return kernel(*arguments)

    return call


def peak_of(bench: Bench, side: int) -> int | None:
    """Return the bytes allocated at a call's peak, minus those allocated before the call, or None if unknown."""
    import torch

    # Tensors in cycles of an earlier call would be freed in this one, and hide a part of its peak.
    gc.collect()
    calls = bench.calls(1)
    if bench.device == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        bench.run(side, calls)
        torch.cuda.synchronize()
        return int(torch.cuda.max_memory_allocated() - before)
    return cpu_peak(lambda: bench.run(side, calls))


def pool_bytes() -> int | None:
    """Return the bytes in private memory pools, which CUDA graphs own, or None if no GPU is used."""
    import torch

    if not torch.cuda.is_initialized():
        return None
    segments: list[dict[str, Any]] = torch.cuda.memory_snapshot()
    return sum(int(each["total_size"]) for each in segments if tuple(each.get("segment_pool_id", (0, 0))) != (0, 0))


_FUNCTION = "log_cudagraph_skip_and_bump_counter"
_MODULES = ("cudagraph_utils", "output_code", "compile_fx", "cudagraph_trees")
_SLOW_PATH = "Unable to hit fast path of CUDAGraphs"
"""How _inductor/cudagraph_trees.py (2.11 to 2.15) warns of a call that runs without its CUDA graph."""


class Skips:
    """The reasons, each with the number of skips."""

    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record reasons in this block. If torch has moved the function, only torch's counter shows that it skips."""
        import torch._inductor.compile_fx
        import torch._inductor.cudagraph_trees
        import torch._inductor.cudagraph_utils
        import torch._inductor.output_code  # noqa: F401

        with ExitStack() as active:
            # The function is taken from its own module, as the modules that imported it hold the same object.
            original = getattr(sys.modules["torch._inductor.cudagraph_utils"], _FUNCTION, None)

            def record_skip(message: str) -> Any:
                self.reasons[str(message)] += 1
                if original is None:
                    return None
                return original(message)

            for name in _MODULES:
                module = sys.modules[f"torch._inductor.{name}"]
                if hasattr(module, _FUNCTION):
                    active.enter_context(patched(module, _FUNCTION, record_skip))
            active.enter_context(patched(warnings, "showwarning", self._noting_warning(warnings.showwarning)))
            yield

    def _noting_warning(self, original: Any) -> Any:
        def shown(message: Any, *arguments: Any, **named: Any) -> None:
            if _SLOW_PATH in str(message):
                self.reasons[str(message)] += 1
            else:
                original(message, *arguments, **named)

        return shown


def check_configuration(configuration: CompileConfiguration) -> None:
    """Refuse a mode or option that this torch does not know, before the model is loaded.

    Raises:
        TargetError: there is no such mode or option, or the option does not accept the value.
    """
    check_mode(configuration.mode, option="mode")
    inductor_options(configuration)


def inductor_options(configuration: CompileConfiguration) -> dict[str, Any]:
    """Return the options with the names and types of Inductor's config.

    Raises:
        TargetError: there is no such option, or its value has another type.
    """
    if not configuration.options:
        return {}
    from torch._inductor import list_options

    # Either spelling: command lines have dashes, Inductor's names have underscores.
    known = {name.replace("-", "_"): name for name in list_options()}
    return {name.replace("-", "_"): _value(name, text, known) for name, text in configuration.options.items()}


def _value(name: str, text: str, known: dict[str, str]) -> Any:
    from torch._inductor import config

    key = name.replace("-", "_")
    if key not in known:
        todo = did_you_mean(key, known, "torch._inductor.list_options() lists them")
        raise TargetError(f"--options {name}: Inductor has no such option", todo)
    value, default = _read(text), config.get_config_copy()[key]
    is_number = isinstance(default, float) and isinstance(value, int)
    if default is not None and type(value) is not type(default) and not is_number:
        what = f"--options {name}={text}: not a value of type {type(default).__name__}"
        raise TargetError(what, f"its default is {default!r}")
    return value


def _read(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def compiled(model: Any, options: Options, configuration: CompileConfiguration) -> Any:
    """Return the compiled model; nothing compiles before its first call."""
    import torch

    arguments: dict[str, Any] = {"dynamic": options.dynamic, "fullgraph": options.fullgraph}
    if configuration.backend is not None:
        arguments["backend"] = configuration.backend
    chosen = inductor_options(configuration)
    if chosen:  # torch.compile takes a mode or options, not both
        from torch._inductor import list_mode_options

        mode = configuration.mode or "default"
        arguments["options"] = {**list_mode_options().get(mode, {}), **chosen}
    elif configuration.mode is not None:
        arguments["mode"] = configuration.mode
    return torch.compile(model, **arguments)


def uses_cuda_graphs(configuration: CompileConfiguration) -> bool:
    """Whether the configuration enables CUDA graphs."""
    return enables_cuda_graphs(configuration.backend, configuration.mode, inductor_options(configuration))


def outcome(configuration: CompileConfiguration, compilations: Compilations, skips: Skips, device: str) -> Compiled:
    """Return what torch.compile did in all calls so far."""
    from torch._dynamo.utils import counters

    recorded = compilations.recordings
    if not uses_cuda_graphs(configuration):
        state = "off"
    elif device != "cuda":
        state = "not_on_cpu"
    else:
        # Torch's own counter also knows of skips that came without a message.
        skipped = sum(skips.reasons.values()) or int(counters["inductor"]["cudagraph_skips"])
        state = {(True, True): "partly", (True, False): "recorded", (False, True): "skipped"}.get(
            (bool(recorded), bool(skipped)), "unknown"
        )
    return Compiled(
        graphs=int(counters["stats"]["unique_graphs"]),
        breaks=sum(counters["graph_break"].values()),
        cuda_graphs=state,
        recordings=recorded,
        pool=pool_bytes() if recorded else None,
        skips=tuple(Skipped(" ".join(reason.split())[:600], times) for reason, times in skips.reasons.most_common(8)),
    )


@contextmanager
def autotuning_recorded(record: Callable[[Event], None]) -> Iterator[None]:
    """Record what torch prints of autotuning in this block; a torch that prints it elsewhere prints it as usual."""
    with ExitStack() as patches:

        def install(module: ModuleType) -> None:
            for owner, name in (
                (module.AlgorithmSelectorCache, "log_results"),
                (module, "_log_autotune_choices_stats"),
            ):
                original = getattr(owner, name, None)
                if original is not None:
                    patches.enter_context(patched(owner, name, _recorded(original, record, owner)))

        when = patches.enter_context(watch_imports())
        when("torch._inductor.select_algorithm", install)
        yield


def _recorded(original: Callable[..., Any], record: Callable[[Event], None], owner: Any) -> Any:
    @wraps(original)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        text = io.StringIO()
        try:
            with redirect_stderr(text):
                return original(*args, **kwargs)
        finally:
            if text.getvalue():
                record(AutotuningPrinted(text.getvalue()))

    # On a class, torch declares it as a static method: a plain function would get the instance.
    if isinstance(owner, type):
        return staticmethod(recorded)
    return recorded


RANDOM = "two eager calls differ, too"


def differed(bench: Bench, way: Way, *, train: bool) -> Differed:
    """Call eager twice and compiled once, each with copies of the same inputs, and compare outputs and gradients.

    The model keeps its state between the calls: if it changes that state, two eager calls differ, too.
    """
    original, results = bench.make(), []
    # Eager twice: what two eager calls differ by cannot be compilation's fault.
    for side in (0, 0, 1):
        try:
            call = copied(original)
        except Exception as error:  # an argument's `__deepcopy__` may raise anything
            return Differed(bench.scenario, None, f"the inputs cannot be copied: {type_name(error)}")
        results.append(taken(called(bench.sides[side], call, way, train=train)[0]))
    eager, second, compiled = results
    noise, difference = _largest(eager, second), _largest(eager, compiled)
    if math.isinf(difference or 0.0):
        return Differed(bench.scenario, None, "the results differ in shape")
    if noise is None or difference is None:
        return Differed(bench.scenario, None, "the results contain no floating-point values to compare")
    if noise > 1e-4:
        return Differed(bench.scenario, None, RANDOM)
    return Differed(bench.scenario, difference)


def _largest(one: Any, other: Any) -> float | None:
    """Return the largest difference of two results, relative to the largest value of the same tensor."""
    import torch

    found: list[float] = []
    for leaf in leaves(one, other):
        first, second = leaf.eager, leaf.compiled
        if leaf.group == "inputs" or not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
            continue
        if first.shape != second.shape:
            return math.inf
        if first.numel() and (first.is_floating_point() or first.is_complex()):
            found.append(_relative(first, second))
    return max(found, default=None)


def _relative(first: Any, second: Any) -> float:
    import torch

    if first.is_complex():
        wide = torch.complex128
    else:
        wide = torch.float64
    first, second = first.detach().to("cpu", wide), second.detach().to("cpu", wide)
    # NaN at the same places is agreement, and at others the largest difference.
    gap = torch.nan_to_num((first - second).abs(), nan=0.0 if torch.equal(first.isnan(), second.isnan()) else 1e30)
    largest = float(torch.nan_to_num(first.abs(), nan=0.0, posinf=0.0).max())
    return float(gap.max()) / (largest or 1.0)


_TODO = {
    "load": "First make it work in plain Python: the import, the model and its inputs.",
    "eager": "First make this call work without torch.compile.",
}


def main(loaded: frozenset[str]) -> None:
    """Carry out the request in the file named by the first argument."""
    preloaded = Preloaded(loaded)
    request = TimingRequest.from_file(Path(sys.argv[1]))
    file = os.open(request.results, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    process = os.getpid()

    def record(event: Event) -> None:
        if os.getpid() == process:  # not in a fork that the model makes
            os.write(file, line_of(event))

    model = _within("load", record, None, lambda: _loaded(request, preloaded))
    if model is None:
        sys.exit(1)
    _Timing(request, model, record).run()
    record(Done())


def _loaded(request: TimingRequest, preloaded: Preloaded) -> Loaded:
    for each in (request.configuration, *request.known):
        # Before the model is loaded, which may take minutes.
        check_configuration(each)
    loaded = load(request.capture, preloaded)
    for each in (request.configuration, *request.known):
        # After it: a model file may register a backend of its own.
        check_backend(each.backend, option="backend")
    import torch

    if request.threads is not None:
        torch.set_num_threads(request.threads)
    if request.capture.options.train and isinstance(loaded.model, torch.nn.Module):
        loaded.model.train()
    return loaded


class _Timing:
    """Times every part of every scenario with one compiled model, as a program would use it."""

    def __init__(self, request: TimingRequest, loaded: Loaded, record: Callable[[Event], None]) -> None:
        self._request = request
        self._record = record
        self._loaded = loaded
        self._options = request.capture.options
        self._parts: tuple[str, ...] = ("forward",)
        if self._options.train:
            # The whole step first: it is the only one that a brief run times.
            self._parts = ("step", "forward", "backward")
        if request.brief:
            self._parts = self._parts[:1]
        self._compilations = Compilations()
        self._skips = Skips()
        self._is_set_up = False
        self._device = "cpu"
        self._mutating: set[str] = set()
        self._sides = (loaded.model, compiled(loaded.model, self._options, request.configuration))

    def run(self) -> None:
        """Time all scenarios; one that fails is recorded, and the next one is timed."""
        with ExitStack() as active:
            active.enter_context(self._compilations.counting())
            active.enter_context(autotuning_recorded(self._record))
            active.enter_context(self._skips.recording())  # slows down no timed call: torch decides while compiling
            for name, way in self._loaded.scenarios.items():
                if _within("eager", self._record, name, partial(self._try_eager, name, way)):
                    _within("run", self._record, name, partial(self._scenario, name, way))
                if self._request.brief:
                    break
            self._record(outcome(self._request.configuration, self._compilations, self._skips, self._device))

    def _try_eager(self, name: str, way: Way) -> bool:
        """Call the model once without torch.compile; note whether it changes inputs, compiles or records gradients."""
        import torch

        call = way.make()
        # Each write to a tensor raises its version, so no values need to be kept for the comparison.
        before, compiled = [_version(tensor) for tensor in tensors(call)], self._compilations.total
        with training(self._loaded.model, way), gradients(way):
            outputs = self._loaded.model(*call.args, **call.kwargs)
            records_gradients = torch.is_grad_enabled() and _requires_gradients(outputs)
        if not self._is_set_up:
            self._is_set_up = True
            self._device = _device(self._loaded.model, call.args, call.kwargs, outputs)
            self._record(self._setup())
        if [_version(tensor) for tensor in tensors(call)] != before:
            self._mutating.add(name)
            self._record(Noted(name, "mutates_inputs"))
        if self._compilations.total > compiled:
            self._record(Noted(name, "compiles_itself"))
        if records_gradients and not self._options.train:
            self._record(Noted(name, "unused_gradients"))
        return True

    def _setup(self) -> Setup:
        import torch

        if self._device == "cuda":
            name = torch.cuda.get_device_name()
        else:
            name = self._device
        return Setup(
            torch=str(torch.__version__),
            python=platform.python_version(),
            device=name,
            threads=torch.get_num_threads(),
            cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
            scenarios=tuple(self._loaded.scenarios),
            parts=self._parts,
        )

    def _scenario(self, name: str, way: Way) -> None:
        with training(self._loaded.model, way), gradients(way):
            benches = []
            # Inputs that need no gradient leave no backward to time.
            for part in self._parts if way.backward() else ("forward",):
                bench = self._bench(name, way, part)
                benches.append(bench)
                for side in (0, 1):
                    warm_up(bench, side, only_compile=self._request.only_compile)
                if self._request.only_compile:
                    return
                run_rounds(bench, self._request.rounds)
            if self._request.brief:
                return
            # After all rounds: what measures memory or profiles slows down the calls that follow it.
            for bench in benches:
                self._record(Peaks(name, bench.part, peak_of(bench, 0), peak_of(bench, 1)))
            for side in (0, 1):
                self._record(shares_of(benches[0], side))
            self._record(differed(benches[0], way, train=self._options.train))

    def _bench(self, name: str, way: Way, part: str) -> Bench:
        return Bench(
            scenario=name,
            part=part,
            sides=self._sides,
            block=stopwatch.PARTS[part] if self._options.train else stopwatch.TimedLoop(),
            make=way.make,
            fresh=self._request.fresh or name in self._mutating,
            compilations=self._compilations,
            record=self._record,
            device=self._device,
        )


def _version(tensor: Any) -> int | None:
    """Return how often a tensor was written to, or None for an inference tensor, which does not count writes."""
    if tensor.is_inference():
        return None
    return int(tensor._version)


def _device(model: Any, *values: Any) -> str:
    """Return the type of device that a call uses: that of the first tensor that is not on the CPU."""
    import torch
    from torch.utils import _pytree

    state = []
    if isinstance(model, torch.nn.Module):
        state = [*model.parameters(), *model.buffers()]
    leaves = [leaf for leaf in (*state, *_pytree.tree_leaves(values)) if isinstance(leaf, torch.Tensor)]
    # A tensor on the meta device has no memory, so it tells nothing of where the call runs.
    return next((leaf.device.type for leaf in leaves if leaf.device.type not in ("cpu", "meta")), "cpu")


def _requires_gradients(outputs: Any) -> bool:
    import torch
    from torch.utils import _pytree

    return any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in _pytree.tree_leaves(outputs))


def _within(phase: str, record: Callable[[Event], None], scenario: str | None, work: Callable[[], Any]) -> Any:
    """Do the work and return its result; if it raises, record that and return None."""
    try:
        return work()
    except TargetError as error:
        record(Failed("target", "TargetError", error.what, scenario, todo=error.todo))
    except SystemExit as error:
        what = f"the model file ended the process with sys.exit: {error.code}"
        file, line = place_of_failure(error) or (None, None)
        record(
            Failed(
                phase,
                "SystemExit",
                what,
                scenario,
                file,
                line,
                "A model file must not end the process: remove that call.",
            )
        )
    except Exception as error:
        file, line = place_of_failure(error) or (None, None)
        record(
            Failed(phase, type_name(error), message(error) or NO_MESSAGE, scenario, file, line, _TODO.get(phase, ""))
        )
        if scenario is None or phase == "eager":
            trimmed = without_our_frames(error.__traceback__)
            print(traceback_text(error, trimmed), end="", file=sys.stderr, flush=True)
    return None
