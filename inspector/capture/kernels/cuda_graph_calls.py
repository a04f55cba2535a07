"""Record what torch does when a graph part that may become a CUDA graph is called: warms up, records, or skips.

`CUDAGraphTreeManager._run` (2.11 to 2.15, _inductor/cudagraph_trees.py) decides. A first call is a warm-up, run
without a CUDA graph, in the memory that all CUDA graphs share. A later call is one, too, while results of the last
warm-up are alive: torch reclaims them only when a new call of a compiled function begins and no backward is pending.
Otherwise torch looks for a recording made after the same graph, with the same inputs in the same places, and replays
it or makes another. This module watches these decisions, and asks nothing that torch has not asked: a check of its own
could keep inputs alive whose death torch waits for.
"""

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from ctrace.inspector.capture.core.part import PartIdentity
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.kernels.cuda_graph_piece import CudaGraphPiece
from ctrace.inspector.capture.kernels.replay_times import ReplayTimes
from ctrace.inspector.facts.cuda_graphs import CudaGraphEvent, CudaGraphRecorded, CudaGraphSkipped, CudaGraphWarmedUp

_SKIP = "log_cudagraph_skip_and_bump_counter"
_SIZES = "is_cudagraph_capture_sizes"
_NOT_CAPTURED = "its sizes are not in cudagraph_capture_sizes"
_FORCED = "force_cudagraphs_warmup is on"
_PENDING = "results of an earlier call are still alive, and no backward has run since (pending, uninvoked backwards)"
_SAME_STEP = "results of an earlier graph of the same step are alive, and torch was still warming that one up"
_MOST_SIZES = 400
_MOST_REASON = 2000


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
    return _FORCED if config.triton.force_cudagraphs_warmup else ""


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
