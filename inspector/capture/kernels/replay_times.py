"""Time the replay of CUDA graphs against launching their kernels one by one, after the program has ended.

All CUDA graphs of a GPU share one pool of memory: a replay of torch's recording overwrites what other graphs and the
program's last calls have left there, and what it reads may be gone. So nothing is replayed while the program runs, and
never torch's own recording. Before torch records a graph, its inputs are copied to the CPU, except for weights, which
are read where they are. After the program, they are copied back, and the same code is recorded again, into a pool of
its own.
"""

import time
import weakref
from collections.abc import Callable
from types import MethodType
from typing import Any

from msgspec import Struct

from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.isolation.private_copies import CannotCopyError, PrivateCopies, size_of
from ctrace.inspector.capture.isolation.second_run import stored
from ctrace.inspector.capture.isolation.unnoticed import unnoticed
from ctrace.inspector.capture.kernels.cuda_graph_piece import CudaGraphPiece
from ctrace.inspector.facts.cuda_graphs import CudaGraphTimed

# Rounds alternate between both ways, so that a slower clock hits both.
_ROUNDS = 9
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
