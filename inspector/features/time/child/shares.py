"""Find where the time of a call goes, with torch's profiler, after all rounds.

The profiler slows the program down, so these times are shares of a slower call, not parts of the measured one. Names of
ranges are torch's: `TorchDynamo Cache Lookup` (csrc/dynamo/eval_frame_cpp.cpp), `Torch-Compiled Region` (_dynamo/
convert_frame.py), `## Call CompiledFxGraph` (_inductor/output_code.py), read in 2.11 to 2.13.
"""

import statistics
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.capture.calls.stopwatch import synchronizer
from ctrace.inspector.capture.calls.timed_rounds import Bench
from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.features.time.events import SIDES, KernelUsed, SharesMeasured

_SECONDS = 0.1
"""Total length of the profiled calls; each call produces many events."""
_MOST_CALLS = 20
_CPP = "cpp_fused"
_GUARDS, _RUNTIME, _WRAPPER, _LAUNCHES, _OPS, _KERNELS = "guards", "runtime", "wrapper", "launches", "ops", "kernels"
_RUNTIME_NAMES = ("Torch-Compiled Region", "Pregraph bytecode", "AOTDispatcher", "CompiledFunction", "Graph bytecode")
_LAUNCH_NAMES = (
    *("cudaLaunch", "cuLaunch", "cudaGraphLaunch", "cudaMemcpy", "cudaMemset", "cuMemcpy", "cuMemset"),
    *("hipLaunch", "hipModuleLaunch", "hipGraphLaunch", "hipExtModuleLaunch"),
)
_MOST_KERNELS = 200


class _Range(Struct, frozen=True):
    name: str
    start: int
    end: int


def shares_of(bench: Bench, side: int) -> SharesMeasured:
    """Profile calls of one side, and add up the time of each kind of range."""
    from torch.profiler import ProfilerActivity, profile

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
    kineto = profiled.profiler.kineto_results if profiled.profiler is not None else None
    events = list(kineto.events()) if kineto is not None else []
    return _shares(bench, side, seconds, count, events, on_gpu=on_gpu)


def _timed(bench: Bench, side: int, calls: Sequence[Call], *, on_gpu: bool) -> float:
    """Return the seconds of a call: the median on a CPU; the mean on a GPU, which runs asynchronously."""
    if on_gpu:
        return bench.run(side, calls) / len(calls)
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
    busy = _busy(gpu) if gpu else None
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
    each, left = divmod(len(times), calls)
    if left:
        return sum(times) / calls, len(times) / calls
    return sum(statistics.median(times[index::each]) for index in range(each)), float(each)


def _nested(ranges: list[_Range]) -> Iterator[tuple[_Range, int]]:
    """Yield each range of a thread with the nanoseconds of the ranges directly inside it."""
    open_: list[tuple[_Range, int]] = []
    for each in sorted(ranges, key=lambda one: (one.start, -one.end)):
        while open_ and open_[-1][0].end <= each.start:
            yield open_.pop()
        if open_:
            outer, inside = open_[-1]
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
    return _OPS if "::" in name else ""


def _busy(gpu: list[_Range]) -> int:
    """Return the nanoseconds in which the GPU runs at least one kernel."""
    busy, until = 0, 0
    for each in sorted(gpu, key=lambda one: one.start):
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
