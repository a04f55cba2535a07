"""Time each kernel of a graph part during the part's first run, on copies of its arguments.

During the first run, the arguments are real (a gather is as fast as its indices allow), every kind of kernel appears
(generated, user-written, library), and the order is the wrapper's. A profiler would see one launch of each kernel, with
warm caches. After the measurement, the program's own call computes its results on its own arguments.

Time a wrapper's calls of libraries and C++ kernels during the first run of a graph part.

Source: the wrappers that Inductor writes (2.11 to 2.13, _inductor/codegen/wrapper.py). They call libraries through
`extern_kernels.mm(...)` or `torch.ops.aten.mm.default(...)`, and C++ kernels by names that start with `cpp_fused`.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any, Protocol

from msgspec.structs import replace

from ctrace.inspector.capture.built_kernels.current_gpu import record_gpu
from ctrace.inspector.capture.built_kernels.kernel_stopwatch import timed
from ctrace.inspector.capture.built_kernels.triton_builds import name_of
from ctrace.inspector.capture.core.part import PartIdentity
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

    def attach(self, module: Any, part: PartIdentity) -> None:
        """Time the first call of a compiled module."""
        # Never released: the thread that gets it is the first, and all later calls go straight through.
        first, original = threading.Lock(), module.call
        may_be_graphed = _uses_cuda_graphs()

        def call(args: Any) -> Any:
            if self._is_over or not first.acquire(blocking=False):
                return original(args)
            with ExitStack() as watched:
                with self._recorder.watching("times of kernels"):
                    run = FirstRun(self._recorder, part, _MAY_BE_GRAPHED if may_be_graphed else why_not_now())
                    self._see_gpu(run)
                    # By thread: a launch in another thread belongs to another part.
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
            # Let the autotuner choose on the copies, so that the timed launcher is the one that the program will get.
            launch(*again.args, **again.kwargs)
            (chosen,) = kernel.launchers
            return lambda: chosen(*again.args, **again.kwargs)

        # What the kernel writes or adds to has to be restored before each launch.
        changed = {*kernel.mutated_arg_names, *kernel.reset_to_zero_arg_names}
        named = zip(kernel.fn.arg_names, args, strict=False)
        # Workspaces and semaphores of some reductions must also be restored.
        written = [arg for name, arg in named if name in changed or name.startswith(("ws_", "sem"))]
        # Before the program's own launch, whose results no second launch may overwrite.
        run.time(name_of(kernel), launcher_of, args, kwargs, written, why=_why_once(kernel))

    def _see_gpu(self, run: "FirstRun") -> None:
        import torch

        # Measuring allocates and launches; a part whose kernels may not be timed may not be disturbed either.
        how = "alone" if run.why else "measured"
        if self._gpu_recorded in (how, "measured") or not torch.cuda.is_initialized():
            return
        self._gpu_recorded = how
        with self._recorder.watching("the GPU"), run.measuring():
            record_gpu(self._recorder, measure=not run.why)

    @contextmanager
    def _running(self, run: "FirstRun") -> Iterator[None]:
        outer, self._now.run = getattr(self._now, "run", None), run
        try:
            yield
        finally:
            self._now.run = outer


class FirstRun:
    """The first run of a graph part; `why` says why its kernels cannot be timed, or is empty."""

    def __init__(self, recorder: Recorder, part: PartIdentity, why: str) -> None:
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
                # The layers of a model launch the same kernel with the same sizes; each is timed once.
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
            # The copies are gone by now, so the program's own launch has all memory that it had before.
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


_EXTERNAL = "extern_kernels"
_CPP = "cpp_fused"
_OTHER = "it is no function of torch, and may do more than compute"


class CallTiming(Protocol):
    """Times a call before the wrapper makes it."""

    is_measuring: bool

    def time(
        self,
        name: str,
        launcher_of: Callable[[SecondRun], Callable[[], Any]],
        args: Any,
        kwargs: Any,
        written: Any,
        why: str = "",
    ) -> None:
        """Time a call on copies of its arguments."""


@contextmanager
def passing_by(run: CallTiming, module: ModuleType) -> Iterator[None]:
    """Let `run` time the calls that `module` makes in this block."""
    calls, names = _Calls(run), vars(module)
    kept = {name: value for name, value in names.items() if name == _EXTERNAL or name.startswith(_CPP)}
    for name, value in kept.items():
        # A wrapper reads these names from its own module at each call, so replacing them there touches no other graph.
        names[name] = _Namespace(calls, value) if name == _EXTERNAL else calls.timing(name, value)
    try:
        with calls.of_aten():
            yield
    finally:
        names.update(kept)


class _Calls:
    """Times calls, but not the aten ops inside a call that has a name in the wrapper."""

    def __init__(self, run: CallTiming) -> None:
        self._run = run
        self._is_named = False

    def timing(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function so that its calls are timed."""

        is_ours = name.startswith(_CPP)
        why = "" if is_ours or _is_torchs(function) else _OTHER

        def call(*args: Any, **kwargs: Any) -> Any:
            # A generated C++ kernel may write to any argument; a function of torch returns its result or writes it to
            # `out`, whose old values do not matter.
            self._time(name, function, args, kwargs, (*args, *kwargs.values()) if is_ours else (), why)
            outer, self._is_named = self._is_named, True
            try:
                return function(*args, **kwargs)
            finally:
                self._is_named = outer

        return call

    @contextmanager
    def of_aten(self) -> Iterator[None]:
        """Time aten ops that the wrapper calls directly.

        Other ops may have side effects, such as communication between processes; they are not called a second time.
        """
        from torch.utils._python_dispatch import TorchDispatchMode

        calls = self

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                kwargs = kwargs or {}
                # `extern_kernels.mm` dispatches `aten.mm`: without the first condition, one call would be timed twice.
                if not calls._is_named and not calls._run.is_measuring and _computes(func, args, kwargs):
                    calls._time(f"torch.ops.{func}", func, args, kwargs, _written(func, args, kwargs))
                return func(*args, **kwargs)

        with Mode():
            yield

    def _time(
        self, name: str, function: Callable[..., Any], args: Any, kwargs: Any, written: Any, why: str = ""
    ) -> None:
        if not self._run.is_measuring:

            def launcher_of(again: SecondRun) -> Callable[[], Any]:
                return lambda: function(*again.args, **again.kwargs)

            self._run.time(name, launcher_of, args, kwargs, written, why)


class _Namespace:
    """Replaces `extern_kernels` of a wrapper."""

    def __init__(self, calls: _Calls, kernels: Any) -> None:
        self._calls = calls
        self._kernels = kernels

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._kernels, name)
        if callable(function):
            return self._calls.timing(f"{_EXTERNAL}.{name}", function)
        return function


def _is_torchs(function: Any) -> bool:
    """Whether a function of `extern_kernels` is torch's own; the program may register others."""
    return str(getattr(function, "__module__", "")).partition(".")[0] == "torch"


def _computes(func: Any, args: Any, kwargs: Any) -> bool:
    import torch
    from torch.utils import _pytree

    # A view computes nothing, and `_local_scalar_dense`, which is `.item()`, only waits for the device.
    computes = func.namespace == "aten" and not func.is_view and func is not torch.ops.aten._local_scalar_dense.default
    return computes and any(isinstance(leaf, torch.Tensor) for leaf in _pytree.tree_leaves((args, kwargs)))


def _written(func: Any, args: Any, kwargs: Any) -> list[Any]:
    """Return the arguments that an op writes to, by its schema."""
    arguments = func._schema.arguments
    values = dict(zip((each.name for each in arguments), args, strict=False)) | kwargs
    return [
        values[each.name] for each in arguments if each.name in values and getattr(each.alias_info, "is_write", False)
    ]
