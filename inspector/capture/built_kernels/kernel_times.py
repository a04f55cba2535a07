"""Time each kernel of a graph part during the part's first run, on copies of its arguments.

During the first run, the arguments are real (a gather is as fast as its indices allow), every kind of kernel appears
(generated, user-written, library), and the order is the wrapper's. A profiler would see one launch of each kernel, with
warm caches. After the measurement, the program's own call computes its results on its own arguments.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from msgspec.structs import replace

from ctrace.inspector.capture.built_kernels.gpu import record_gpu
from ctrace.inspector.capture.built_kernels.library_calls import passing_by
from ctrace.inspector.capture.built_kernels.stopwatch import timed
from ctrace.inspector.capture.built_kernels.triton_builds import name_of
from ctrace.inspector.capture.core.part import Part
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.isolation.private_copies import CannotCopyError
from ctrace.inspector.capture.isolation.second_run import SecondRun, second_run, why_not_now
from ctrace.inspector.facts.built import LaunchTiming

_MAY_BE_GRAPHED = "CUDA graphs are on, and its memory may belong to one"
_FAILED = "it failed; see the problems of the run"


class KernelTimes:
    """Times kernels of the graph part that this thread runs for the first time."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._now = threading.local()
        self._is_over = False
        self._gpu_recorded: str | None = None
        """`alone` after recording only the GPU's facts, `measured` after recording measurements, too; None before."""

    def end(self) -> None:
        """Stop timing: a compiled module may outlive the capture of a block."""
        self._is_over = True

    def attach(self, module: Any, part: Part) -> None:
        """Time the first call of a compiled module."""
        first, original = threading.Lock(), module.call
        may_be_graphed = _uses_cuda_graphs()

        def call(args: Any) -> Any:
            if self._is_over or not first.acquire(blocking=False):
                return original(args)
            with ExitStack() as watched:
                with self._recorder.watching("times of kernels"):
                    run = Run(self._recorder, part, _MAY_BE_GRAPHED if may_be_graphed else why_not_now())
                    self._see_gpu(run)
                    watched.enter_context(self._running(run))
                    watched.enter_context(passing_by(run, module))
                return original(args)

        module.call = call

    def of_triton(self, kernel: Any, launch: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Time a launch of an autotuner's kernel; `launch` is its `run`, which also chooses the configuration."""
        run = getattr(self._now, "run", None)
        if run is None or run.is_measuring:
            return

        def launcher_of(again: SecondRun) -> Callable[[], Any]:
            launch(*again.args, **again.kwargs)
            (chosen,) = kernel.launchers
            return lambda: chosen(*again.args, **again.kwargs)

        changed = {*kernel.mutated_arg_names, *kernel.reset_to_zero_arg_names}
        named = zip(kernel.fn.arg_names, args, strict=False)
        # Workspaces and semaphores of some reductions must also be restored.
        written = [arg for name, arg in named if name in changed or name.startswith(("ws_", "sem"))]
        run.time(name_of(kernel), launcher_of, args, kwargs, written, why=_why_once(kernel))

    def _see_gpu(self, run: "Run") -> None:
        import torch

        how = "alone" if run.why else "measured"
        if self._gpu_recorded in (how, "measured") or not torch.cuda.is_initialized():
            return
        self._gpu_recorded = how
        with self._recorder.watching("the GPU"), run.measuring():
            record_gpu(self._recorder, measure=not run.why)

    @contextmanager
    def _running(self, run: "Run") -> Iterator[None]:
        outer, self._now.run = getattr(self._now, "run", None), run
        try:
            yield
        finally:
            self._now.run = outer


class Run:
    """The first run of a graph part; `why` says why its kernels cannot be timed, or is empty."""

    def __init__(self, recorder: Recorder, part: Part, why: str) -> None:
        self._recorder = recorder
        self._part = part
        self.why = why
        self.is_measuring = False
        self._launches: Counter[str] = Counter()
        self._known: dict[tuple[Any, ...], tuple[float, int]] = {}

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Hide launches in this block from timing."""
        outer, self.is_measuring = self.is_measuring, True
        try:
            yield
        finally:
            self.is_measuring = outer

    def time(
        self,
        name: str,
        launcher_of: Callable[[SecondRun], Callable[[], Any]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        written: Iterable[Any],
        why: str = "",
    ) -> None:
        """Record the median time of a launch, or why there is none; reuse the time of an earlier equal launch.

        Args:
            why: why this one may run only once.
        """
        why = self.why or why
        timing = LaunchTiming(self._part.stage, name, self._launches[name], 0, why=why or _FAILED)
        self._launches[name] += 1
        if not why:
            with self._recorder.watching(f"the time of {name}"), self.measuring():
                key = name, _kind(args), _kind(kwargs)
                timing = self._measured(timing, key, launcher_of, args, kwargs, written)
        self._part.add(self._recorder, timing)

    def _measured(
        self,
        timing: LaunchTiming,
        key: tuple[Any, ...],
        launcher_of: Callable[[SecondRun], Callable[[], Any]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        written: Iterable[Any],
    ) -> LaunchTiming:
        import torch

        if key not in self._known:
            try:
                with second_run(args, kwargs) as again:
                    self._known[key] = timed(again.launch(launcher_of(again), written))
            except CannotCopyError as error:
                return replace(timing, why=str(error))
            except torch.OutOfMemoryError:
                return replace(timing, why="not enough memory to launch it again")
        seconds, launches = self._known[key]
        return replace(timing, seconds=seconds, launches=launches, why="")


def _kind(arguments: Any) -> tuple[Any, ...]:
    """Return a key that distinguishes launches whose times may differ: sizes, strides and numbers."""
    import torch
    from torch.utils import _pytree

    leaves = _pytree.tree_leaves(arguments)
    return tuple((x.shape, x.stride(), x.dtype) if isinstance(x, torch.Tensor) else repr(x) for x in leaves)


def _uses_cuda_graphs() -> bool:
    from torch._inductor import config

    return bool(config.triton.cudagraphs)


_ONLY_ONCE = {
    "pointer_type": "it computes addresses, which may be those of other tensors",
    "device_print": "it prints",
}
"""What a user's Triton kernel may do that copies of its arguments do not contain, by a word of its source."""


def _why_once(kernel: Any) -> str:
    """Return why a Triton kernel cannot be launched again without the program noticing; empty: it can."""
    source = str(getattr(kernel.fn, "src", ""))
    return next((why for word, why in _ONLY_ONCE.items() if word in source), "")
