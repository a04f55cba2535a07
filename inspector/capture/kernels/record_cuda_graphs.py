"""Record what torch does with CUDA graphs (`cuda_graphs`): its decision while compiling, and what it does in each call.

Torch decides for each graph part when it makes a `CompiledFxGraph` (2.11 to 2.15, _inductor/output_code.py), wraps what
may become a CUDA graph with `compile_fx.cudagraphify`, and records at the second call or later. Torch stops at the
first reason that it finds; this module finds the nodes behind all reasons, with torch's own predicates. With
`graph_partition`, the default, the scheduler decides for each node (`Scheduler.should_partition`, 2.11 to 2.13): what
it refuses runs between CUDA graphs, and nothing is logged.

`CudaGraphCalls` records what torch does when a graph part that may become a CUDA graph is called: it warms up, records,
or skips. `CUDAGraphTreeManager._run` (2.11 to 2.15, _inductor/cudagraph_trees.py) decides. A first call is a warm-up,
run without a CUDA graph, in the memory that all CUDA graphs share. A later call is one, too, while results of the last
warm-up are alive: torch reclaims them only when a new call of a compiled function begins and no backward is pending.
Otherwise torch looks for a recording made after the same graph, with the same inputs in the same places, and replays it
or makes another. This module watches these decisions, and asks nothing that torch has not asked: a check of its own
could keep inputs alive whose death torch waits for.

`ReplayTimes` compares the replay of CUDA graphs with launching their kernels one by one, after the program has ended.
All CUDA graphs of a GPU share one pool of memory: a replay of torch's recording overwrites what other graphs and the
program's last calls have left there, and what it reads may be gone. So nothing is replayed while the program runs, and
never torch's own recording. Before torch records a graph, its inputs are copied to the CPU, except for weights, which
are read where they are. After the program, they are copied back, and the same code is recorded again, into a pool of
its own.
"""

import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import MethodType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.capture.core.hook import When
from ctrace.inspector.capture.core.node_lines import stack_of
from ctrace.inspector.capture.core.part import PartIdentity
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder, compile_context
from ctrace.inspector.capture.isolation.private_copies import CannotCopyError, PrivateCopies, size_of
from ctrace.inspector.capture.isolation.second_run import stored
from ctrace.inspector.capture.isolation.unnoticed import unnoticed
from ctrace.inspector.capture.kernels.record_kernels import ops_of, origins_of
from ctrace.inspector.facts.cuda_graphs import (
    CudaGraphCalled,
    CudaGraphChecked,
    CudaGraphEvent,
    CudaGraphPartitioned,
    CudaGraphRecorded,
    CudaGraphSkipped,
    CudaGraphTimed,
    CudaGraphWarmedUp,
    Offender,
)
from ctrace.inspector.facts.kernel_facts import Stage


class CudaGraphPiece(Struct, frozen=True):
    """One of the CUDA graphs that torch splits a graph part into, by its place in the part."""

    part: PartIdentity
    number: int


# Rounds alternate between both ways, so that a slower clock hits both.
_ROUNDS = 9
# A block of several calls, because one replay may be shorter than what starting and waiting for it costs.
_BLOCK_SECONDS = 0.002
# Several calls to a round, as one replay may be shorter than the clock can tell.
_MOST_CALLS = 100
_LARGEST = 256 << 20
"""Bytes of inputs to keep for all graphs together: they stay in memory until the program ends."""
_LONGEST = 10.0
"""Seconds to spend on all graphs: the user waits for the report."""
_GONE = "what it reads was freed before the program ended"


class ReplayTimes:
    """The CUDA graphs to time once the program is over; see `core/recorder.py`."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._waiting: list[_Waiting] = []
        self._known: set[tuple[str, str]] = set()
        self._bytes = 0
        recorder.postponed.add(self)

    def keep(self, piece: CudaGraphPiece, sizes: str, manager: Any, inputs: list[Any], function_id: Any) -> None:
        """Keep what is needed to time a graph that torch is about to record, once for each graph and sizes."""
        key = str(piece), sizes
        # Torch records again for each new set of sizes or addresses; a time belongs to sizes alone.
        if key in self._known:
            return
        self._known.add(key)
        import torch

        function, device = manager.ids_to_funcs[function_id], torch.device("cuda", manager.device_index)
        try:
            # Each replay would change them further.
            if function.mutated_input_idxs:
                raise CannotCopyError("it changes its inputs")
            self._waiting.append(
                _Waiting(piece, sizes, device, _weak(function.model), *self._kept(manager, inputs, function))
            )
        except CannotCopyError as error:
            self._record(piece, sizes, untimed=str(error))

    def _kept(self, manager: Any, inputs: list[Any], function: Any) -> tuple[list[Any], dict[int, "_Weight"]]:
        """Return the inputs that are copied, with None for weights, and weak references to weights, by index."""
        import torch

        static = {
            index
            for index in function.static_input_idxs
            if isinstance(inputs[index], torch.Tensor) and not _is_of_pool(manager, inputs[index])
        }
        copied = [None if index in static else each for index, each in enumerate(inputs)]
        self._bytes += size_of(copied)
        # The sum only grows: once the limit is passed, no further graph is kept.
        if self._bytes > _LARGEST:
            raise CannotCopyError("its inputs are too large to keep until the program ends")
        return stored(copied), {index: _Weight.of(inputs[index]) for index in static}

    def measure(self) -> None:
        """Time what is kept."""
        until = time.monotonic() + _LONGEST
        for each in self._waiting:
            # Asked between graphs only: one that has begun is finished.
            if time.monotonic() > until:
                self._record(each.piece, each.sizes, untimed="the others took too long")
                continue
            with self._recorder.watching("the time of a CUDA graph"):
                try:
                    self._record(each.piece, each.sizes, **_times(each))
                except CannotCopyError as error:
                    self._record(each.piece, each.sizes, untimed=str(error))
        self._waiting.clear()

    def refuse(self, why: str) -> None:
        """Record why nothing is timed."""
        for each in self._waiting:
            self._record(each.piece, each.sizes, untimed=why)
        self._waiting.clear()

    def _record(self, piece: CudaGraphPiece, sizes: str, **found: Any) -> None:
        piece.part.add(self._recorder, CudaGraphTimed(piece.part.stage, sizes, piece=piece.number, **found))


class _Waiting(Struct, frozen=True):
    piece: CudaGraphPiece
    sizes: str
    device: Any
    code: Callable[[], Any]
    """A weak reference to the compiled code, which takes a list of inputs and empties it."""
    copied: list[Any]
    weights: dict[int, "_Weight"]

    def launch(self) -> Callable[[list[Any]], Any]:
        """Return the compiled code.

        Raises:
            CannotCopyError: torch has dropped it.
        """
        found: Callable[[list[Any]], Any] | None = self.code()
        if found is None:
            raise CannotCopyError(_GONE)
        return found

    def inputs(self) -> list[Any]:
        """Return the inputs on the GPU.

        Raises:
            CannotCopyError: a weight is gone, or the copies do not fit.
        """
        (inputs,) = PrivateCopies((self.copied,), {}, device=self.device).args
        for index, weight in self.weights.items():
            inputs[index] = weight.found()
        return list(inputs)


class _Weight(Struct, frozen=True):
    """A weight, which is not kept alive."""

    tensor: Callable[[], Any]
    address: int

    @classmethod
    def of(cls, tensor: Any) -> "_Weight":
        """Refer to a weight."""
        return cls(weakref.ref(tensor), tensor.data_ptr())

    def found(self) -> Any:
        """Return the weight.

        Raises:
            CannotCopyError: it was freed, or has moved, such as to the CPU.
        """
        found = self.tensor()
        if found is None or found.data_ptr() != self.address:
            raise CannotCopyError(_GONE)
        return found


def _is_of_pool(manager: Any, tensor: Any) -> bool:
    """Whether a tensor is a result of another CUDA graph, which later ones overwrite."""
    current = manager.current_node
    return current is not None and bool(current._is_cuda_graph_recorded_tensor(tensor))


def _weak(code: Any) -> Callable[[], Any]:
    if isinstance(code, MethodType):
        # A bound method is a new object each time it is asked for, so that a plain reference to it would be dead at
        # once.
        return weakref.WeakMethod(code)
    return weakref.ref(code)


def _times(waiting: _Waiting) -> dict[str, float]:
    """Return the seconds of a replay, and of the same call with its kernels launched one by one.

    Raises:
        CannotCopyError: it cannot be timed; the message says why.
    """
    import torch

    with torch.cuda.device(waiting.device), torch.no_grad(), unnoticed() as random:
        launch, inputs = waiting.launch(), waiting.inputs()
        stream = torch.cuda.Stream()
        # What copies the inputs runs on the current stream, and has to be over.
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # a library allocates its workspace at the first call on a stream
            launch(list(inputs))
        torch.cuda.synchronize()
        if random.torch_moved():
            raise CannotCopyError("it draws random numbers")
        graph = torch.cuda.CUDAGraph()
        # Other threads of the program may still call CUDA, which the stricter default would report as an error here.
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            outputs = launch(list(inputs))
        # A copy of the list for each call, since compiled code empties it.
        replay, launched = _alternately(graph.replay, lambda: launch(list(inputs)))
        del outputs  # they are in the graph's pool
        return {"replay": replay, "launched": launched}


def _alternately(*ways: Callable[[], Any]) -> list[float]:
    """Return the lower quartile of the seconds of a call, of each way."""
    # Three calls give the estimate, after the first launch above has loaded the code.
    calls = [max(1, min(_MOST_CALLS, int(_BLOCK_SECONDS / _seconds(run, 3)))) for run in ways]
    rounds = [[_seconds(run, number) for run, number in zip(ways, calls, strict=True)] for _ in range(_ROUNDS)]
    # Disturbances only add time, so the quicker rounds are nearer to the truth; the quickest alone may be luck.
    return [sorted(times)[_ROUNDS // 4] for times in zip(*rounds, strict=True)]


def _seconds(run: Callable[[], Any], calls: int) -> float:
    import torch

    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(calls):
        run()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / calls


_SKIP = "log_cudagraph_skip_and_bump_counter"
_SIZES = "is_cudagraph_capture_sizes"
_NOT_CAPTURED = "its sizes are not in cudagraph_capture_sizes"
_FORCED = "force_cudagraphs_warmup is on"
_PENDING = "results of an earlier call are still alive, and no backward has run since (pending, uninvoked backwards)"
_SAME_STEP = "results of an earlier graph of the same step are alive, and torch was still warming that one up"
# Chosen, as is the next one: the log keeps what a screen can show, and torch's reasons may quote a whole stack.
_MOST_SIZES = 400
_MOST_REASON = 2000
"""Characters of torch's reason, which may list every input."""


class CudaGraphCalls:
    """The hooks on torch's CUDA graph trees; `now.piece` is what this thread runs."""

    def __init__(self, recorder: Recorder, now: threading.local) -> None:
        self._recorder = recorder
        self._now = now
        self._times = ReplayTimes(recorder)
        self._noted: set[tuple[str, str]] = set()
        self._parts: WeakKeyDictionary[Any, dict[Any, PartIdentity]] = WeakKeyDictionary()
        """By manager and by torch's number of a part."""
        self._recordings: WeakKeyDictionary[Any, Counter[Any]] = WeakKeyDictionary()

    def install(self, module: ModuleType, patches: ExitStack) -> None:
        """Watch torch's decisions."""
        manager, node = module.CUDAGraphTreeManager, module.CUDAGraphNode
        hooks = (
            (module, _SKIP, self._skipping),
            (module, _SIZES, self._choosing_sizes),
            # `run_eager` is a warm-up, `record_function` a recording, `check_invariants` says why a recording does not
            # fit.
            (node, "check_invariants", self._checking),
            (manager, "run_eager", self._warming_up),
            (manager, "record_function", self._recording),
        )
        for owner, name, hook in hooks:
            with self._recorder.watching(f"{name} of CUDA graphs"):
                patches.enter_context(patched(owner, name, hook(getattr(owner, name))))

    def without_trees(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Record a recording of `cudagraphify_impl` (compile_fx.py), which `cudagraph_trees = False` uses."""

        def cudagraphify(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            piece = getattr(self._now, "piece", None)
            if piece is not None:
                with self._recorder.watching("the recording of a CUDA graph"):
                    sizes = _sizes(inputs)
                    piece.part.add(self._recorder, CudaGraphRecorded(piece.part.stage, sizes, piece.number))
            return original(model, inputs, *args, **kwargs)

        return cudagraphify

    def _skipping(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def record_skip(message: str) -> Any:
            self._skip(str(message))
            return original(message)

        return record_skip

    def _choosing_sizes(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def is_captured(int_key: Any) -> Any:
            found = original(int_key)
            if not found:
                self._skip(_NOT_CAPTURED)
            return found

        return is_captured

    def _skip(self, reason: str) -> None:
        self._note(lambda piece: CudaGraphSkipped(piece.part.stage, reason, piece.number))

    def _note(self, made: Callable[[CudaGraphPiece], CudaGraphEvent]) -> None:
        """Record something about what runs, once."""
        piece = getattr(self._now, "piece", None)
        if piece is None:
            return
        record = made(piece)
        key = str(piece), str(record)
        # A loop of a thousand calls skips or warms up for the same reason each time.
        if key not in self._noted:
            self._noted.add(key)
            piece.part.add(self._recorder, record)

    def _checking(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def check_invariants(node: Any, inputs: Any) -> Any:
            status, explain = original(node, inputs)
            # `explain` holds the list of inputs, not the inputs: torch empties it whatever it does next.
            is_fit = status.name == "SUCCESS"
            self._now.mismatch = None if is_fit else (node.wrapped_function.id, explain)
            return status, explain

        return check_invariants

    def _warming_up(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def run_eager(manager: Any, new_inputs: Any, function_id: Any) -> Any:
            with self._recorder.watching("the warm-up of a CUDA graph"):
                why = why_warmed_up(manager, function_id)
                self._note(lambda piece: CudaGraphWarmedUp(piece.part.stage, why, piece.number))
            return original(manager, new_inputs, function_id)

        return run_eager

    def _recording(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def record_function(manager: Any, new_inputs: Any, function_id: Any) -> Any:
            piece = getattr(self._now, "piece", None)
            if piece is None:
                return original(manager, new_inputs, function_id)
            # Before the recording, which empties the list of inputs.
            found = CudaGraphRecorded(piece.part.stage, "", piece.number)
            with self._recorder.watching("the recording of a CUDA graph"):
                self._parts.setdefault(manager, {})[function_id] = piece.part
                found = replace(found, sizes=_sizes(new_inputs), why=self._why_again(manager, function_id))
                self._times.keep(piece, found.sizes, manager, new_inputs, function_id)
            result = original(manager, new_inputs, function_id)
            with self._recorder.watching("the recording of a CUDA graph"):
                # After it: the pool has grown by what the graph needs.
                piece.part.add(self._recorder, replace(found, pool_bytes=_pool_bytes(manager)))
            return result

        return record_function

    def _why_again(self, manager: Any, function_id: Any) -> str:
        """Return why the earlier recordings do not fit this call; empty: there are none."""
        mismatch, self._now.mismatch = getattr(self._now, "mismatch", None), None
        recordings = self._recordings.setdefault(manager, Counter())
        recordings[function_id] += 1
        # Torch checks several recordings in a row; only the last one's reason is known, and only if it is this
        # function's.
        if mismatch is not None and mismatch[0] == function_id:
            return str(mismatch[1]())[:_MOST_REASON]
        if recordings[function_id] == 1:
            return ""
        before = manager.current_node
        if before is None:
            return "it runs first in its step here, and its earlier recordings follow other graphs"
        part = self._parts.get(manager, {}).get(before.wrapped_function.id)
        return f"it follows {_named(part)}, whose results are still alive, and its earlier recordings do not"


def _named(part: PartIdentity | None) -> str:
    if part is None:
        return "another graph"
    return f"graph {part.context.get('frame_id')}/{part.context.get('frame_compile_id')} {part.stage}"


def why_warmed_up(manager: Any, function_id: Any) -> str:
    """Return why torch runs a part without a CUDA graph that it has warmed up before; empty for a first call.

    The conditions are those of `_run`, `try_end_curr_warmup` and `can_start_new_generation`.
    """
    from torch._inductor import config

    if function_id not in manager.warmed_up_functions:
        return ""
    if manager.in_warmup:
        if manager.in_new_torch_compile_invocation():
            return _PENDING
        return _SAME_STEP
    if config.triton.force_cudagraphs_warmup:
        return _FORCED
    return ""


def _pool_bytes(manager: Any) -> int:
    """Return the bytes that the pool of a GPU's CUDA graphs holds."""
    import torch

    pool = tuple(manager.cuda_graphs_thread_pool)
    segments = torch.cuda.memory_snapshot()
    return sum(each["total_size"] for each in segments if tuple(each["segment_pool_id"]) == pool)


def _sizes(inputs: Any) -> str:
    """Return the sizes of the input tensors, and the numbers that are symbolic sizes."""
    import torch

    shown = [str(list(each.shape)) if isinstance(each, torch.Tensor) else str(each) for each in inputs]
    return " ".join(shown)[:_MOST_SIZES]


# Chosen: a graph may have thousands of such nodes, and the first ones say where to look.
_MOST_NODES = 50
_NO_GPU = "the graph part runs on the CPU"
_LIMITS = (
    "cudagraph_dynamic_shape_warn_limit",
    "cudagraph_dynamic_shape_rerecord_limit",
    "cudagraph_managed_input_rerecord_limit",
    "cudagraph_unexpected_rerecord_limit",
)
"""Torch's limits on recordings, in `torch._inductor.config.triton`; the second and third are new in 2.15."""
_NONE_LEFT = "all kernels are in partitions smaller than cudagraph_min_partition_size"
_SAID_OF_NODES = ("unbacked binding ops", "CUDAGraph-unsafe custom ops")
"""Reasons of `Scheduler.should_partition` that `_offenders` finds in the graph, with better words."""
_WORDS = {"dynamic shape ops": "symbolic sizes, with cudagraph_skip_dynamic_graphs on"}
"""Reasons of `Scheduler.should_partition` that do not name the setting behind them."""


@contextmanager
def cuda_graphs(recorder: Recorder, when: When) -> Iterator[None]:
    """Record each decision, skip and recording."""
    now = threading.local()
    calls = CudaGraphCalls(recorder, now)
    with ExitStack() as patches:

        def decisions(module: ModuleType) -> None:
            made = module.CompiledFxGraph
            original = made.__init__

            def init(graph: Any, *args: Any, **kwargs: Any) -> None:
                # Torch decides within `__init__`, and the object has the decision afterwards.
                original(graph, *args, **kwargs)
                with recorder.watching("CUDA graphs"):
                    _check(recorder, graph, _graph_module(args, kwargs), _refused(now))

            patches.enter_context(patched(made, "__init__", init))

        def wrapping(module: ModuleType) -> None:
            # output_code.py imports it from here at each use (2.13), so that a patch of this module reaches every part.
            patches.enter_context(patched(module, "cudagraphify", _attributed(recorder, now, module.cudagraphify)))
            without_trees = calls.without_trees(module.cudagraphify_impl)
            patches.enter_context(patched(module, "cudagraphify_impl", without_trees))
            if hasattr(module, _SKIP):  # since 2.13
                patches.enter_context(patched(module, _SKIP, _note_refusal(now, getattr(module, _SKIP))))

        def partitioning(module: ModuleType) -> None:
            scheduler = module.Scheduler
            patches.enter_context(
                # A signature says whether the partition is left out of CUDA graphs (`skip_cudagraph`,
                # _inductor/scheduler.py).
                patched(scheduler, "graph_partition", _record_partitions(recorder, scheduler.graph_partition))
            )

        when("torch._inductor.output_code", decisions)
        when("torch._inductor.compile_fx", wrapping)
        when("torch._inductor.scheduler", partitioning)
        when("torch._inductor.cudagraph_trees", lambda module: calls.install(module, patches))
        yield


def _note_refusal(now: threading.local, original: Callable[..., Any]) -> Callable[..., Any]:
    """Keep why torch turns CUDA graphs off before it compiles a graph, which it logs once for all parts."""

    def note_refusal(message: str) -> Any:
        now.refused = compile_context(), str(message)
        return original(message)

    return note_refusal


def _refused(now: threading.local) -> str:
    context, reason = getattr(now, "refused", ({}, ""))
    if context == compile_context():
        return reason
    return ""


def _graph_module(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the graph module among the arguments of `CompiledFxGraph`."""
    import torch

    return next((each for each in (*args, *kwargs.values()) if isinstance(each, torch.fx.GraphModule)), None)


def _check(recorder: Recorder, graph: Any, module: Any, refused: str) -> None:
    from torch._inductor import config

    if not config.triton.cudagraphs and not refused:
        return
    reason = graph.disabled_cudagraphs_reason
    info = graph.cudagraph_info
    reasons = []
    if reason:
        reasons = [reason]
    if info is not None and not reason:
        reasons += info.cudagraph_fail_reasons
    if refused and not reasons:
        reasons = [refused]
    if "cuda" not in graph.device_types:  # torch's reason is then that there are several devices
        reasons, module = [_NO_GPU], None
    static = set(graph.fx_kwargs.get("static_input_idxs") or ())
    part = _part(graph.fx_kwargs)
    offenders, limits = _offenders(module, static), _limits(config.triton)
    part.add(recorder, CudaGraphChecked(part.stage, tuple(map(str, reasons)), offenders, limits))


def _limits(options: Any) -> dict[str, int]:
    """Return torch's limits on recordings; one that is None, or unknown to this torch, is left out."""
    limits = ((name, getattr(options, name, None)) for name in _LIMITS)
    return {name: limit for name, limit in limits if limit is not None}


def _part(kwargs: Any) -> PartIdentity:
    if kwargs.get("is_backward"):
        return PartIdentity(compile_context(), Stage.BACKWARD)
    return PartIdentity(compile_context(), Stage.INFERENCE if kwargs.get("is_inference") else Stage.FORWARD)


def _offenders(module: Any, static: set[int]) -> tuple[Offender, ...]:
    """List the nodes that a CUDA graph cannot hold: CPU nodes, unsafe ops, data-dependent sizes, writes to inputs."""
    if module is None:
        return ()
    found = []
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    for index, node in enumerate(placeholders):
        writing = [user for user in node.users if index not in static and _writes(user, node)]
        if writing:
            found.append(Offender(f"changes its input {node.name}", _stack(writing[0]) or _stack(node)))
    for node in module.graph.nodes:
        why = _why_unsafe(node)
        if why:
            found.append(Offender(why, _stack(node)))
    return tuple(found[:_MOST_NODES])


def _why_unsafe(node: Any) -> str:
    import torch
    from torch._inductor.utils import is_cudagraph_unsafe_fx_node
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    if node.op == "output":
        return ""
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor) and value.device.type == "cpu":
        return f"{_name(node)} is on the CPU"
    if node.op == "call_function" and is_cudagraph_unsafe_fx_node(node):
        return f"{_name(node)} cannot be in a CUDA graph"
    if value is not None and free_unbacked_symbols(value):
        return f"{_name(node)} has a size that depends on data"
    return ""


def _name(node: Any) -> str:
    if node.op == "placeholder":
        return f"input {node.name}"
    return str(node.target)


def _stack(node: Any) -> str:
    """Return a node's stack trace; for an input, which has none, return that of its first use."""
    for each in (node, *node.users):
        if stack := stack_of(each):
            return stack
    return ""


def _writes(node: Any, placeholder: Any) -> bool:
    """Whether a node writes to an input; parameters and buffers are static, and may be written to."""
    schema = getattr(node.target, "_schema", None)
    # e.g. `copy_(arg0_1, add)`: functionalized graphs write to inputs at their end only.
    return schema is not None and schema.is_mutable and bool(node.args) and node.args[0] is placeholder


def _attributed(recorder: Recorder, now: threading.local, original: Callable[..., Any]) -> Callable[..., Any]:
    """Assign each recording and skip to the graph part that is running."""

    pieces: Counter[str] = Counter()

    def cudagraphify(model: Any, *args: Any, **kwargs: Any) -> Any:
        # Called while compiling; the function that it returns is what the program runs.
        run, part = original(model, *args, **kwargs), _part(kwargs)
        piece = pieces[str(part)]  # torch calls this once for each CUDA graph that it splits a part into
        pieces[str(part)] += 1
        is_first = True

        def attributed(inputs: Any) -> Any:
            nonlocal is_first
            if is_first:
                is_first = False
                part.add(recorder, CudaGraphCalled(part.stage))
            outer, now.piece = getattr(now, "piece", None), CudaGraphPiece(part, piece)
            try:
                return run(inputs)
            finally:
                now.piece = outer

        return attributed

    return cudagraphify


def _record_partitions(recorder: Recorder, original: Callable[..., Any]) -> Callable[..., Any]:
    def graph_partition(scheduler: Any) -> Any:
        partitions, signatures = original(scheduler)
        with recorder.watching("the partitions of CUDA graphs"):
            from torch._inductor import config

            if config.triton.cudagraphs:
                _partitioned(recorder, scheduler, sum(not each.skip_cudagraph for each in signatures))
        return partitions, signatures

    return graph_partition


def _partitioned(recorder: Recorder, scheduler: Any, graphs: int) -> None:
    """Record how many CUDA graphs a part is split into, and torch's reason for each node that runs between them."""
    # Asked again afterwards, when the nodes are final: `graph_partition` keeps no reasons.
    outside = [(node, reason) for node in scheduler.nodes if (reason := scheduler.should_partition(node))]
    reasons = list(dict.fromkeys(_WORDS.get(reason, reason) for _, reason in outside)) or [_NONE_LEFT]
    said = [(node, reason) for node, reason in outside if not _is_said(reason)]
    offenders = tuple(_outside(node, reason) for node, reason in said[:_MOST_NODES])
    part = PartIdentity.under_way()
    part.add(recorder, CudaGraphPartitioned(part.stage, graphs, () if graphs else tuple(reasons), offenders))


def _is_said(reason: str) -> bool:
    return reason in _SAID_OF_NODES or reason.startswith("cpu")


def _outside(node: Any, reason: str) -> Offender:
    origins = [origin for each in node.get_nodes() if each.node for origin in origins_of(each.node, exact=False)]
    stacks = [stack for each in origins if (stack := stack_of(each))]
    ops = ", ".join(ops_of(origins)) or node.get_name()
    return Offender(f"{ops}: {_WORDS.get(reason, reason)}", stacks[-1] if stacks else "")
