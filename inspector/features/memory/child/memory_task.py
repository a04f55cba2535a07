"""The child process of `ctrace memory`: the peak of a step, compiled beside eager, and what is alive then.

`SizeSearch` finds the largest input that fits, by running steps of growing size. `as_rank` follows one rank of a job:
what the virtual rank refuses ends the task with its two lines.
"""

import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from types import ModuleType
from typing import Any

from msgspec import field
from msgspec.structs import replace

from ctrace.inspector.capture.calls.answering import answer
from ctrace.inspector.capture.calls.call_tensors import mapped, resized, tensors
from ctrace.inspector.capture.calls.compiler_names import check_mode, enables_cuda_graphs
from ctrace.inspector.capture.calls.program_run import ending_of, run_program, wants_gpu
from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.capture.core.child_doors import child_door, has_child_door
from ctrace.inspector.capture.core.hook import When
from ctrace.inspector.capture.core.imports import Preloaded, watch_imports
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.trace_log import TraceLog
from ctrace.inspector.capture.isolation.profiled_memory import ProfiledPeak, profiled_peak
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.memory_facts import (
    AliveMemory,
    CallGrowth,
    FitDocument,
    FoundMemory,
    HeldMemory,
    MemoryPeak,
    ProductWork,
    TriedSize,
    with_measured,
)
from ctrace.inspector.facts.outcome import ENDED_WELL, Failure
from ctrace.inspector.facts.run_events import ProblemMet
from ctrace.inspector.facts.wire import Record
from ctrace.inspector.features.memory.child.allocator_history import COPIES, AllocatorHistory
from ctrace.inspector.features.memory.child.call_growth import GrowingCalls
from ctrace.inspector.features.memory.child.model_calls import (
    MeasuredPeak,
    ModelCalls,
    gpu_index,
    keeps_counts,
    keeps_history,
    measured_peak,
    stopped,
)
from ctrace.inspector.features.memory.child.planned_graphs import PlannedGraphs
from ctrace.inspector.features.memory.child.saved_outputs import CountedProducts, saved_memory
from ctrace.inspector.features.memory.child.storage_ledger import (
    CodeOrigin,
    Ledger,
    TrackedStorage,
    alive_of,
    saved_of,
    source_line,
    timeline_of,
)
from ctrace.inspector.features.memory.child.tracked_calls import Tracked
from ctrace.inspector.features.memory.child.tried_options import OptionTrials, copied_bytes, flops
from ctrace.inspector.features.memory.memory_request import MemoryRequest, RunMemory, with_eager
from ctrace.inspector.processes.machine import memory
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.tasks import TaskError


class RankRecorder(Recorder):
    """Keeps what ends a run, and what could not be recorded: this task writes no log."""

    refused: list[Failure] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, record: Record, at: dict[str, object] | None = None) -> None:
        """Keep a failure or a problem; nobody reads the rest."""
        if isinstance(record, Failure):
            self.refused.append(record)
        elif isinstance(record, ProblemMet):
            self.problems.append(record.what)


@contextmanager
def as_rank(options: Options, when: When, *, is_program: bool) -> Iterator[RankRecorder]:
    """Be the rank of the world that the options name in the block; without a world, nothing is different.

    Raises:
        TargetError: the program needs a value of another rank, or another world.
    """
    recorder = RankRecorder(TraceLog(None))
    with ExitStack() as active:
        if options.world is not None:
            hooks = [*child_door("cluster").hooks(options)]
            if has_child_door("gpus"):  # a program takes its GPU, which need not be there
                hooks += child_door("gpus").hooks(None, options.world, is_program=is_program)
            for hook in hooks:
                active.enter_context(hook(recorder, when))
        try:
            yield recorder
        finally:
            if recorder.refused:  # also if the program catches the exception and goes on
                first = recorder.refused[0]
                raise TargetError(first.message, first.todo)


_MOST_SIZE = 1 << 24
_FAR = 64
"""Sizes apart, below which the line through two points finds the limit in a run or two."""


def sized(call: Call, what: str, size: int) -> Call:
    """Resize a dimension of the inputs: `batch` is the first of each tensor that has that of the first one.

    Raises:
        TargetError: no input has the dimension.
    """
    old = size_of(call, what)
    if what == "batch":
        return resized(call, 0, size)
    dimension = int(what.partition(".")[2])

    def change(tensor: Any) -> Any:
        if dimension >= tensor.dim() or tensor.shape[dimension] != old:
            return tensor
        return _resized(tensor, dimension, size)

    return mapped(call, change)


def size_of(call: Call, what: str) -> int:
    """Return the size that a dimension has.

    Raises:
        TargetError: no input has the dimension.
    """
    given = tensors(call)
    index, dimension = (0, 0) if what == "batch" else map(int, what.split("."))
    if index >= len(given) or dimension >= given[index].dim():
        raise TargetError(f"--fit {what}: no input has such a dimension", "count inputs and dimensions from 0")
    return max(int(given[index].shape[dimension]), 1)


def _resized(tensor: Any, dimension: int, size: int) -> Any:
    import torch

    rows = torch.arange(size, device=tensor.device) % max(tensor.shape[dimension], 1)
    return tensor.detach().index_select(dimension, rows).requires_grad_(tensor.requires_grad)


class SizeSearch:
    """Finds the largest size whose peak is below a limit.

    Memory is nearly linear in a size, so each next size is where a line through two known ones meets the limit. That
    takes about five runs, and the result is exact: it fits, and the next larger size does not.
    """

    def __init__(self, run: Callable[[int], tuple[int, AliveMemory | None]], limit: int) -> None:
        """Take what runs a step of a size, and returns its peak and the group that holds most then."""
        self._run = run
        self._limit = limit
        self._peaks: dict[int, int] = {}
        self._over: tuple[int, AliveMemory | None] | None = None

    @property
    def tried(self) -> tuple[TriedSize, ...]:
        """Return each size that was run, with its peak."""
        return tuple(TriedSize(size, peak) for size, peak in self._peaks.items())

    @property
    def over(self) -> int | None:
        """The peak at the smallest size that does not fit."""
        if self._over is None:
            return None
        return self._peaks[self._over[0]]

    @property
    def limiting(self) -> AliveMemory | None:
        """What holds the most there."""
        if self._over is None:
            return None
        return self._over[1]

    def peak(self, size: int | None) -> int | None:
        """Return the peak of a size that was run."""
        if size is None:
            return None
        return self._peaks.get(size)

    def largest(self, first: int) -> int | None:
        """Return the largest size that fits; 0: none does; None: all that were tried do."""
        fits, size = 0, first
        # Upwards from the size of the user's, which mostly fits, so that the first runs are the quickest.
        while self._fits(size):
            if size >= _MOST_SIZE:
                return None
            if fits:
                # At least a twentieth further, or sizes close to the limit would take many runs.
                following = max(self._meets_limit(fits, size) + 1, size + max(size // 20, 1))
            else:
                following = size * 2
            # The line through two small sizes may lead too far: the peak moves to another part of the step.
            fits, size = size, min(following, _MOST_SIZE)
        return self._between(fits, size)

    def _between(self, fits: int, over: int) -> int:
        """Return the largest size that fits, from one that does (or 0) and one that does not."""
        halves = False
        while over - fits > 1:
            if halves or not fits:
                middle = (fits + over) // 2
            else:
                middle = self._meets_limit(fits, over)
            middle = min(max(middle, fits + 1), over - 1)
            halves = not halves and over - fits > _FAR  # where memory is not linear, every second step halves
            if self._fits(middle):
                fits = middle
            else:
                over = middle
        return fits

    def _meets_limit(self, one: int, other: int) -> int:
        """Return the last size below the limit on the line through two known sizes."""
        slope = (self._peaks[other] - self._peaks[one]) / (other - one)
        # Memory that does not grow with the size says nothing of the limit, so the size is doubled.
        if slope <= 0:
            return other * 2
        return int(one + (self._limit - self._peaks[one]) / slope)

    def _fits(self, size: int) -> bool:
        peak, most = self._run(size)
        self._peaks[size] = peak
        if peak > self._limit and (self._over is None or size < self._over[0]):
            self._over = size, most
        return peak <= self._limit


_NOTHING_MEASURES = {"cpu": "torch's profiler recorded no allocations"}
_NO_COUNTS = "the allocator of the GPU is none of torch's, and keeps no counts"
_EXPLAINED = 0.02
"""The share of a measured peak that may belong to no line."""
_LIBRARIES = "kept by libraries"
_LEFT_OUT = (
    "the rounding of the allocator",
    "workspaces that libraries allocate and free inside of one operator",
)
_MOST_SIZES = 64
"""The most graphs of one function while a size is searched: each size may be compiled."""


def main(loaded: frozenset[str]) -> None:
    """Carry out the request."""
    preloaded = Preloaded(loaded)
    answer(MemoryRequest, lambda request: _answered(request, preloaded))


def _answered(request: MemoryRequest, preloaded: Preloaded) -> FoundMemory | RunMemory | FitDocument:
    try:
        if request.fit:
            return _ModelMemory(request).fitting(preloaded)
        if request.measures:
            return _measured_program(request, preloaded)
        if request.capture.kind == "program":
            return _ProgramMemory(request).answered(preloaded)
        return _ModelMemory(request).answered(preloaded)
    except Exception as error:
        refusal = stopped(error)
        if refusal is not None:
            raise refusal from error
        raise


class _Memory:
    """The memory of a run."""

    def __init__(self, request: MemoryRequest) -> None:
        self._request = request
        self._options = request.capture.options
        self._ledger = Ledger()
        self._graphs = PlannedGraphs(self._ledger)

    def _run_memory(self) -> RunMemory:
        """Say what the ledger has of what ran last."""
        device = self._ledger.device()
        peak = self._ledger.peak(device)
        kept = self._kept_by_libraries(device)
        alive = _with_libraries(alive_of(peak.alive), kept)
        graphs = [each for each in self._graphs.graphs if each.calls]
        saved = [each for graph in graphs for each in saved_memory(graph)]
        problems = [*self._graphs.problems()]
        others = self._ledger.devices() - {device}
        if others and device != "cpu":
            problems.append(f"memory on {', '.join(sorted(others))} is not counted: the numbers are of {device}")
        found = FoundMemory(
            peak=MemoryPeak(peak.bytes + kept, measured=False, part=peak.part, at=peak.at),
            eager_peak=None,
            alive=alive,
            unattributed_bytes=peak.bytes + kept - sum(each.bytes for each in alive),
            saved=tuple(sorted(saved, key=lambda each: -each.bytes)),
            timeline=tuple(timeline_of(self._ledger, device)),
            left_out=_LEFT_OUT,
            problems=tuple(problems),
            device=device,
            graphs=sum(not each.is_backward for each in graphs),
            flops=flops(graphs),
            train=self._options.train,
        )
        entered = tuple((each.file, each.line or 0, each.function or "") for each in self._graphs.entered if each.file)
        return RunMemory(found, saved_of(self._ledger, device), self._ledger.most_saved(device), entered)

    def _kept_by_libraries(self, device: str) -> int:
        """Return what the GPU's allocator has now beyond all tensors: the step has run its operators there.

        On an H100, cuBLAS keeps 32 MiB for each thread that multiplies matrices: the forward's and the backward's.
        """
        import torch

        index = gpu_index(device)
        if index is None or not keeps_counts():
            return 0
        known = sum(size for stored, size in self._ledger.alive().items() if stored.device == device)
        return max(int(torch.cuda.memory_allocated(index)) - known, 0)

    def _kept(self, tracked: Tracked) -> tuple[HeldMemory, ...]:
        """Say what settings and calls keep, rather than a name: graphs of autograd, and of each of many inputs."""
        found = [
            HeldMemory(size, 1, *origin[:2], "retain_graph=True", source_line(*origin[:2]), *origin[:2])
            for origin, size in tracked.retained.items()
            if size
        ]
        for function, number in self._graphs.kept():
            holder = f"torch.compile, which keeps {number} graphs of {function.function}"
            found.append(HeldMemory(0, number, *function[:2], holder, source_line(*function[:2]), *function[:2]))
        return tuple(found)


class _ModelMemory(_Memory):
    """The memory of one step of a model."""

    def __init__(self, request: MemoryRequest) -> None:
        super().__init__(request)
        self._calls = ModelCalls(request.capture, self._ledger, Tracked(self._ledger))
        self._graphs.entered = self._calls.tracked.lines.entered
        self._graphs.caller = self._calls.tracked.lines.of_graph
        self._model: Any = None
        self._products = CountedProducts()
        self._work: dict[int, tuple[ProductWork, ...]] = {}
        """What a step of a size that was tried computes."""
        self._before: dict[TrackedStorage, int] = {}
        """What was alive before the step that was measured last."""

    def answered(self, preloaded: Preloaded) -> FoundMemory:
        """Take the steps, and say what was alive."""
        with (
            watch_imports() as when,
            as_rank(self._options, when, is_program=False) as rank,
            self._calls.loaded(preloaded),
        ):
            check_mode(self._options.mode)
            if self._options.build and self._calls.is_fake:
                raise TargetError("--build runs kernels, and a model without weights runs none", "drop --build")
            before = set(self._ledger.alive())
            self._take_steps(self._calls.model)
            eager = self._run_memory()
            # What eager left must not count as alive when the compiled step begins.
            self._calls.forget()
            self._ledger.set_aside(before)
            with self._graphs.active():
                model = self._compiled()
                self._take_steps(model)
                compiled = self._run_memory()
                if self._records_graphs():
                    compiled = replace(compiled, found=self._with_cuda_graphs(compiled.found))
                peak = self._ledger.peak(self._ledger.device())
                copied = copied_bytes(self._graphs.graphs, peak.part) if self._records_graphs() else None
                kept = compiled.found.peak.bytes - peak.bytes - (copied or 0)
                total = flops(self._graphs.graphs)
                # Made here, while the ledger still has the changes of the compiled step.
                trials = OptionTrials(self._calls, self._compiled, peak, total, kept=kept, copied=copied)
                growth = self._growth(model) if self._request.calls else None
            found = replace(with_eager(compiled, eager), held=self._kept(self._calls.tracked))
            if growth is not None:
                found = replace(found, growth=growth.sampled(), held=_largest_first((*found.held, *growth.held())))
            if not found.graphs:
                why = "torch.compile made no graph of this model: the compiled call runs in eager"
                found = replace(found, problems=(*found.problems, why))
            if self._options.mode is not None:
                what = ", but with what its CUDA graphs copy" if self._records_graphs() else ": modes time choices"
                why = f"computed without --mode {self._options.mode}{what}"
                found = replace(found, problems=(*found.problems, why))
            # Last, as it resets Dynamo and compiles once more, with kernels.
            if self._options.build:
                found = self._measured(found)
            if rank.problems:
                found = replace(found, problems=(*found.problems, *rank.problems))
            if self._request.tries_options:
                measured = partial(self._compiled_peak, found.device) if self._options.build else None
                found = replace(found, options=trials.tried(self._request.budget, measured, found.peak.bytes))
            return found

    def fitting(self, preloaded: Preloaded) -> FitDocument:
        """Find the largest size of an input with which a compiled step fits.

        Raises:
            TargetError: no input has the dimension.
        """
        import torch

        what = self._request.fit
        limit = self._request.limit
        with (
            self._calls.loaded(preloaded),
            self._graphs.active(),
            torch._dynamo.config.patch(recompile_limit=_MOST_SIZES),
        ):
            search = SizeSearch(self._step_of_size, limit or memory())
            self._graphs.around = self._products.counting
            model = self._compiled()
            self._model = model
            first = size_of(self._calls.call(), what)
            fits = search.largest(first)
        limiting = search.limiting
        return FitDocument(
            target="",
            fits=fits,
            peak_bytes=search.peak(fits),
            limit_bytes=limit or memory(),
            line=None if limiting is None or limiting.file is None else f"{limiting.file}:{limiting.line}",
            what=what,
            over_bytes=search.over,
            device=self._request.limited_by or "this machine",
            tried=search.tried,
            work=self._work.get(fits or 0, ()),
            limiting=limiting,
        )

    def _step_of_size(self, size: int) -> tuple[int, AliveMemory | None]:
        """Take a compiled step of a size; return its peak, and what holds most then."""
        before = set(self._ledger.alive())
        print(f"ctrace: trying {self._request.fit} = {size}", file=sys.stderr, flush=True)
        for _ in range(2):  # the first one compiles
            call = sized(self._calls.call(), self._request.fit, size)
            self._calls.forget()
            self._ledger.begin()
            self._products.work.clear()
            self._calls.step(self._model, call)
            del call
        self._work[size] = tuple(ProductWork(dtype, flops) for dtype, flops in sorted(self._products.work.items()))
        peak = self._ledger.peak(self._ledger.device())
        self._calls.forget()
        self._ledger.set_aside(before)
        return peak.bytes, next(iter(alive_of(peak.alive)), None)

    def _take_steps(self, model: Any) -> None:
        """Take one step to compile and to make what stays, and then the one whose memory counts."""
        self._calls.step(model)
        self._calls.forget()
        for graph in self._graphs.graphs:
            graph.calls = 0
        self._ledger.begin()
        self._calls.step(model)

    def _records_graphs(self) -> bool:
        """Whether built code would record CUDA graphs."""
        return gpu_index(self._ledger.device()) is not None and enables_cuda_graphs(None, self._options.mode, {})

    def _with_cuda_graphs(self, found: FoundMemory) -> FoundMemory:
        """Add what CUDA graphs keep: copies of inputs, in their pools, and no workspace of a thread that waits.

        The workspaces of cuBLAS are cleared before and after each recording (2.13, _inductor/cudagraph_trees.py,
        `clear_cublas_manager`), so at most one of the two threads of a training step has one. Both are of one size.
        """
        kept = next((each.bytes for each in found.alive if each.op == _LIBRARIES), 0)
        alive = _with_libraries(found.alive, kept // 2 if self._options.train else kept)
        copies = [
            AliveMemory(
                graph.copied_at(found.peak.part), "graph_pool", *graph.function, None, "", 1,
                source_line(graph.function.file, graph.function.line), COPIES,
            )
            for graph in self._graphs.graphs
            if graph.calls and graph.copied_at(found.peak.part)
        ]  # fmt: skip
        alive = tuple(sorted((*alive, *copies), key=lambda each: -each.bytes))
        grown = sum(each.bytes for each in alive) - sum(each.bytes for each in found.alive)
        return replace(found, alive=alive, peak=replace(found.peak, bytes=found.peak.bytes + grown))

    def _growth(self, model: Any) -> GrowingCalls:
        """Make equal calls, and note what each leaves behind."""
        self._calls.forget()
        growth = GrowingCalls(self._ledger, self._calls.tracked.lines)
        for _ in range(self._request.calls):
            self._calls.step(model)
            self._calls.forget()
            growth.after_call()
        return growth

    def _measured(self, found: FoundMemory) -> FoundMemory:
        """Take the same steps with built kernels, and measure both peaks."""
        import torch

        self._calls.forget()
        # The graphs that were compiled so far have no kernels.
        torch._dynamo.reset()
        eager = self._peak_measured(self._calls.model, found.device)
        is_recorded = self._records_graphs()  # then nothing is kept before a step, and one workspace is while it runs
        index = gpu_index(found.device)
        if index is None or not keeps_history():
            history = None
        else:
            history = AllocatorHistory(index)
        with nullcontext() if history is None else history.of_built_code():
            peak = self._compiled_peak(found.device, history)
        if eager is None or peak is None or found.eager_peak is None:
            why = f"{_NOTHING_MEASURES.get(found.device, _NO_COUNTS)}: the peaks are computed"
            return replace(found, problems=(*found.problems, why))
        if is_recorded:
            alive = found.alive
        else:
            alive = _with_libraries(found.alive, peak.others)
        if history is not None:
            alive = self._explained(alive, peak, history)
        problems = found.problems
        if peak.pools:
            # The allocator counts what a step that records has in a pool: on an H200 (2.11), the copies of inputs.
            what = f"the private pools of CUDA graphs reserve {peak.pools} bytes; the peak counts what is in use there"
            problems = (*problems, what)
        return with_measured(replace(found, alive=alive, problems=problems), peak.bytes, eager.bytes)

    def _explained(
        self, alive: tuple[AliveMemory, ...], peak: MeasuredPeak, history: AllocatorHistory
    ) -> tuple[AliveMemory, ...]:
        """Return what is alive at a measured peak: as it was computed, or where that explains too little, as recorded.

        What is computed has shapes and more kinds; what the allocator recorded has the workspaces of libraries.
        """
        unknown = abs(peak.bytes - sum(each.bytes for each in alive))
        if unknown <= _EXPLAINED * peak.bytes or history.peak is None:
            return alive
        recorded = history.alive(self._before, self._ledger, self._calls.tracked.lines.is_users)
        # A recording first frees the workspaces of cuBLAS, which are nobody's tensors.
        recorded = _with_libraries(recorded, max(peak.others - history.peak.released, 0))
        is_better = abs(peak.bytes - sum(each.bytes for each in recorded)) < unknown
        if is_better:
            return recorded
        return alive

    def _compiled_peak(self, device: str, history: AllocatorHistory | None = None) -> MeasuredPeak | None:
        return self._peak_measured(self._compiled(self._options.mode), device, history)

    def _peak_measured(self, model: Any, device: str, history: AllocatorHistory | None = None) -> MeasuredPeak | None:
        self._calls.step(model)
        self._calls.forget()
        self._before = {stored: size for stored, size in self._ledger.alive().items() if stored.device == device}
        recorded = None
        if history is not None:
            recorded = history.recorded()

        def run() -> None:
            # What the measured step allocates is counted by the allocator; here only its end is noted.
            with self._ledger.closed():
                self._calls.step(model)

        peak = measured_peak(run, device, sum(self._before.values()), recorded)
        for each in self._ledger.ended_inside():
            self._ledger.end(each)
        return peak

    def _compiled(self, mode: str | None = None) -> Any:
        """Compile the model; modes time choices or record CUDA graphs, so only built code has one."""
        import torch

        arguments: dict[str, Any] = {"dynamic": self._options.dynamic, "fullgraph": self._options.fullgraph}
        if mode is not None:
            arguments["mode"] = mode
        return torch.compile(self._calls.compiled_part, **arguments)


def _with_libraries(alive: Sequence[AliveMemory], size: int) -> tuple[AliveMemory, ...]:
    """Return what is alive, with the bytes that libraries keep between calls, such as cuBLAS its workspace."""
    found = [each for each in alive if each.op != _LIBRARIES]
    if size:
        found.append(AliveMemory(size, "other", None, None, None, None, "", 1, op=_LIBRARIES))
    return tuple(sorted(found, key=lambda each: -each.bytes))


def _as_rank(name: str) -> str:
    return f"with --world 1, its tensors are on the CPU: ctrace memory {name} --world 1"


class _ProgramMemory(_Memory):
    """The memory of a program, from the import of torch to its end."""

    def __init__(self, request: MemoryRequest) -> None:
        super().__init__(request)
        self._tracked: Tracked | None = None
        self._growths: dict[str, GrowingCalls] = {}
        self._held: tuple[HeldMemory, ...] = ()

    def answered(self, preloaded: Preloaded) -> RunMemory:
        """Run the program to its end.

        Raises:
            TaskError: it ends with an exception before it allocates anything.
        """
        capture = self._request.capture
        name = capture.typed or capture.path or str(capture.module)
        with watch_imports() as when, as_rank(self._options, when, is_program=True) as rank, ExitStack() as active:
            when("torch", partial(self._follow, active))
            if not self._request.is_eager:
                when("torch._inductor.compile_fx", lambda _module: active.enter_context(self._graphs.active()))
            ended = ending_of(lambda: run_program(capture, preloaded))
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
        if not self._ledger.changes:
            if ended != ENDED_WELL:
                todo = "first run it in plain Python"
                if wants_gpu(ended):
                    todo = _as_rank(name)
                raise TaskError(f"{name} ended before it allocated a tensor: {ended}", todo)
            raise TargetError(f"{name} allocated no tensor", "name a model: ctrace memory file.py:name")
        run = self._run_memory()
        problems = (*run.found.problems, *rank.problems, *self._shortcomings(name, ended, run.found))
        found = replace(run.found, problems=problems, program=ended)
        if self._tracked is not None:
            found = replace(
                found, growth=self._growth(), held=_largest_first((*self._kept(self._tracked), *self._held))
            )
            run = replace(run, backwards=self._tracked.backwards)
        return replace(run, found=found)

    def _shortcomings(self, name: str, ended: str, found: FoundMemory) -> Iterator[str]:
        """Yield what the numbers of a program lack, by how it ended and what it compiled."""
        if ended != ENDED_WELL:
            yield f"{name} ended with {ended}: the numbers are of what ran until then"
            if wants_gpu(ended) and self._options.world is None:
                yield f"there is no GPU here; {_as_rank(name)}"
        if not found.graphs and not self._request.is_eager:
            yield f"{name} compiled nothing with Inductor: all of it runs in eager"

    def _follow(self, active: ExitStack, torch: ModuleType) -> None:
        if self._request.without_gradients:
            active.enter_context(torch.no_grad())
        tracked = self._tracked = Tracked(self._ledger)
        tracked.lines.entered.update(CodeOrigin(*each) for each in self._request.entered)
        self._graphs.entered = tracked.lines.entered
        self._graphs.caller = tracked.lines.of_graph
        growths = {
            name: GrowingCalls(self._ledger, tracked.lines, sees_functions=True)
            for name in ("optimizer", "backward", "graph")
        }
        tracked.steps = {name: growths[name].after_call for name in ("optimizer", "backward")}
        self._graphs.after_call = growths["graph"].after_call
        self._growths = growths
        active.callback(self._look_for_holders)
        active.enter_context(tracked.active())
        if self._request.is_eager:
            active.enter_context(tracked.marking_saved())

    def _look_for_holders(self) -> None:
        gc.collect()
        # The rarest first: a step of an optimizer has several backwards, and a backward several graphs.
        self._held = next((each.held() for each in self._growths.values() if len(each.calls) > 1), ())

    def _growth(self) -> tuple[CallGrowth, ...]:
        """Return what was alive after each step of an optimizer, else each backward, else each call of a graph."""
        return next((each.sampled() for each in self._growths.values() if len(each.calls) > 1), ())


def _measured_program(request: MemoryRequest, preloaded: Preloaded) -> RunMemory:
    """Run a program and follow nothing, and measure the peak of all that it allocates.

    Raises:
        TaskError: the program fails, or nothing measures it.
    """
    profiled = ProfiledPeak()
    with watch_imports() as when, ExitStack() as active:

        def begin(_torch: ModuleType) -> None:
            nonlocal profiled
            if request.measures == "cpu":
                profiled = active.enter_context(profiled_peak())

        when("torch", begin)
        ended = ending_of(lambda: run_program(request.capture, preloaded))
    if ended != ENDED_WELL:
        raise TaskError(f"the run with built kernels ended with {ended}", "first run it in plain Python")
    if request.measures == "cpu":
        peak = profiled.bytes
    else:
        peak = _gpu_peak()
    if peak is None:
        why = _NOTHING_MEASURES.get(request.measures) or _no_gpu_peak()
        raise TaskError(why, "drop --build")
    return RunMemory(FoundMemory(MemoryPeak(peak, measured=True, part="program", at=""), None))


def _no_gpu_peak() -> str:
    """Say why a program on GPUs has no measured peak."""
    if not keeps_counts():
        return _NO_COUNTS
    return "it uses several GPUs, and each has its peak at another time"


def _gpu_peak() -> int | None:
    """Return the peak of the one GPU that a program used; None: it used several, or their allocator has no counts."""
    import torch

    if not keeps_counts():
        return None
    peaks = [torch.cuda.max_memory_allocated(index) for index in range(torch.cuda.device_count())]
    used = [each for each in peaks if each]
    if len(used) != 1:
        return None
    return used[0]


def _largest_first(held: tuple[HeldMemory, ...]) -> tuple[HeldMemory, ...]:
    return tuple(sorted(held, key=lambda each: -each.bytes))
