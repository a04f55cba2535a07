"""Record the kernels of a run with `--build` (`built_kernels`): how Triton compiles them, and how long launches take.

Kernels are compiled in this process instead of Inductor's compile workers (2.11 to 2.13, _inductor/async_compile.py),
because Triton reports its times by stage only in the process where it runs. Autotuning candidates still use the
workers. The run has its own Triton cache (`core/record_caches.py`), so that every compilation is measured.

`Configurations` records which of its configurations a Triton kernel is launched with, what each one took, and whether a
cache knew. Inductor times a kernel's configurations at its first launch (`CachingAutotuner.benchmark_all_configs`),
unless the file beside the kernel's source names the best one (`check_autotune_cache`; 2.11 to 2.15, _inductor/runtime/
triton_heuristics.py). A user's `triton.autotune` goes the same way: Inductor times once, and leaves out the user's key.
Coordinate descent, which max-autotune turns on, then times neighbors of the best one, one at a time.

`KernelTimes` has the time of each kernel, taken during the first run of its graph part (`FirstRun`) on copies of its
arguments. During the first run, the arguments are real (a gather is as fast as its indices allow), every kind of kernel
appears (generated, user-written, library), and the order is the wrapper's. A profiler would see one launch of each
kernel, with warm caches. After the measurement, the program's own call computes its results on its own arguments.

`CallTiming` times a wrapper's calls of libraries and C++ kernels. Source: the wrappers that Inductor writes (2.11 to
2.13, _inductor/codegen/wrapper.py). They call libraries through `extern_kernels.mm(...)` or
`torch.ops.aten.mm.default(...)`, and C++ kernels by names that start with `cpp_fused`.
"""

import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from types import ModuleType
from typing import Any, Protocol
from weakref import WeakKeyDictionary, WeakSet

from msgspec.structs import replace

from ctrace.inspector.capture.core.hook import Hook, When
from ctrace.inspector.capture.core.part import PartIdentity
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.isolation.private_copies import CannotCopyError
from ctrace.inspector.capture.isolation.second_run import SecondRun, second_run, why_not_now
from ctrace.inspector.capture.kernels.current_gpu import record_gpu, timed
from ctrace.inspector.capture.kernels.record_autotuning import Samples, spread
from ctrace.inspector.capture.kernels.triton_builds import TritonBuilds, name_of
from ctrace.inspector.facts.autotuning import KernelTuned, TimedConfiguration
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
        # Asked while the part is compiled: `torch.compile` sets a mode's options only for that long.
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
        if is_ours or _is_torchs(function):
            why = ""
        else:
            why = _OTHER

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


def built_kernels(*, timing: bool) -> Hook:
    """Make the hook that records the kernels that are compiled, and with `timing` the times of their launches."""

    @contextmanager
    def hook(recorder: Recorder, when: When) -> Iterator[None]:
        hooks = _Hooks(recorder, timing=timing)
        with ExitStack() as patches:
            for name, install in hooks.installers.items():
                when(name, partial(install, patches=patches))
            try:
                yield
            finally:
                hooks.times.end()

    return hook


class _Hooks:
    """The hooks on torch and Triton."""

    def __init__(self, recorder: Recorder, *, timing: bool) -> None:
        self._recorder = recorder
        self._is_timing = timing
        self._builds = TritonBuilds(recorder)
        self._configurations = Configurations(recorder)
        self.times = KernelTimes(recorder)
        self._loading = threading.local()
        self.installers = {
            "triton.knobs": self._listen,
            "torch._inductor.graph": self._watch_modules,
            "torch._inductor.async_compile": self._compile_here,
            "torch._inductor.runtime.triton_heuristics": self._watch_autotuners,
            "torch._inductor.runtime.benchmarking": self._configurations.samples.install,
        }

    def _listen(self, knobs: ModuleType, patches: ExitStack) -> None:
        # One slot for one listener: the program's own is called after ours.
        theirs = knobs.compilation.listener

        def listener(**facts: Any) -> None:
            with self._recorder.watching("a Triton compilation"):
                # Triton passes more, such as `src`; take what we know, so that a further argument of a later version
                # does no harm.
                known = ("metadata", "metadata_group", "times", "cache_hit")
                self._builds.listen(**{name: facts[name] for name in known})
            if theirs is not None:
                theirs(**facts)

        patches.enter_context(patched(knobs.compilation, "listener", listener))

    def _watch_modules(self, graph: ModuleType, patches: ExitStack) -> None:
        # Torch writes and imports the wrapper here, and importing it compiles the kernels: only here is it known which
        # graph part a kernel belongs to.
        original = graph.GraphLowering.compile_to_module

        def compile_to_module(lowering: Any) -> Any:
            outer, self._loading.part = getattr(self._loading, "part", None), PartIdentity.under_way()
            try:
                module = original(lowering)
                if self._is_timing:
                    with self._recorder.watching("times of kernels"):
                        self.times.attach(module, self._loading.part)
            finally:
                self._loading.part = outer
            return module

        patches.enter_context(patched(graph.GraphLowering, "compile_to_module", compile_to_module))

    def _compile_here(self, async_compile: ModuleType, patches: ExitStack) -> None:
        compiler = async_compile.AsyncCompile
        # `AsyncCompile.triton` returns the autotuner at once if there is no pool (async_compile.py, 2.13).
        use_workers, triton = compiler.use_process_pool, compiler.triton

        def use_process_pool(_cls: Any) -> bool:
            # Outside of a wrapper's import, kernels are candidates of autotuning, many of which compile at the same
            # time.
            return getattr(self._loading, "part", None) is None and bool(use_workers())

        def compile_triton(self_: Any, *args: Any, **kwargs: Any) -> Any:
            kernel = triton(self_, *args, **kwargs)
            part = getattr(self._loading, "part", None)
            # If a pool compiles the kernel, torch returns a future in its place.
            if part is not None and hasattr(kernel, "compile_results"):
                with self._recorder.watching("a compiled kernel"):
                    self._builds.belongs(kernel, part)
            return kernel

        patches.enter_context(patched(compiler, "use_process_pool", classmethod(use_process_pool)))
        patches.enter_context(patched(compiler, "triton", compile_triton))

    def _watch_autotuners(self, heuristics: ModuleType, patches: ExitStack) -> None:
        autotuner = heuristics.CachingAutotuner
        # Every configuration passes through `_precompile_config` (triton_heuristics.py, 2.13), also a neighbor that
        # coordinate descent tries; `run` launches, and chooses first if there are several.
        precompile, run = autotuner._precompile_config, autotuner.run
        # Weak, since a kernel lives as long as the module that torch compiled for it.
        launched: WeakSet[Any] = WeakSet()

        def precompile_config(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            result = precompile(kernel, *args, **kwargs)
            with self._recorder.watching("a configuration of a kernel"):
                self._builds.compiled(kernel, result)
            return result

        def launch(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            with self._recorder.watching("the time of a kernel"):
                self.times.of_triton(kernel, lambda *a, **k: run(kernel, *a, **k), args, kwargs)
            result = run(kernel, *args, **kwargs)
            # After the first run: torch has chosen among the configurations by then.
            if kernel not in launched:
                launched.add(kernel)
                with self._recorder.watching("the configuration that a kernel is launched with"):
                    self._builds.launched(kernel)
                    self._configurations.launched(kernel, name_of(kernel), self._builds.parts_of(kernel))
            return result

        self._configurations.install(heuristics, patches)
        patches.enter_context(patched(autotuner, "_precompile_config", precompile_config))
        patches.enter_context(patched(autotuner, "run", launch))


class Configurations:
    """Collects the times of configurations, and records them at the first launch of their kernel."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.samples = Samples(recorder)
        self._timed: WeakKeyDictionary[Any, dict[str, TimedConfiguration]] = WeakKeyDictionary()
        """The configurations of each kernel that were timed, by name; of one that was timed again, the first time."""

    def install(self, heuristics: ModuleType, patches: ExitStack) -> None:
        """Watch kernels being timed."""
        autotuner = heuristics.CachingAutotuner
        bench = autotuner.bench

        @wraps(bench)
        def watched_bench(kernel: Any, launcher: Any, *args: Any, **kwargs: Any) -> Any:
            # `bench` times one configuration, for all of them in turn and for each neighbor of coordinate descent
            # (triton_heuristics.py, 2.13).
            with self.samples.reading() as runs:
                took = bench(kernel, launcher, *args, **kwargs)
            with self._recorder.watching("the time of a kernel's configuration"):
                found = _configuration(launcher, took, spread(runs))
                self._timed.setdefault(kernel, {}).setdefault(found.name, found)
            return took

        patches.enter_context(patched(autotuner, "bench", watched_bench))

    def launched(self, kernel: Any, name: str, parts: Iterable[PartIdentity]) -> None:
        """Record what is known of a kernel that is launched for the first time; nothing for one configuration."""
        timed = tuple(self._timed.pop(kernel, {}).values())
        cache = str((getattr(kernel, "autotune_cache_info", None) or {}).get("autotune_cache_state", ""))
        # A kernel with one configuration has nothing to choose.
        if not timed and cache != "hit":
            return
        (launcher,) = kernel.launchers
        # None for a user's kernel
        hints = {}
        if isinstance(kernel.size_hints, dict):
            hints = kernel.size_hints
        nanoseconds = getattr(kernel, "autotune_time_taken_ns", None)
        for part in parts:
            tuned = KernelTuned(
                stage=part.stage,
                kernel=name,
                configurations=timed,
                taken=str(launcher.config),
                cache=cache,
                sizes={str(axis): str(size) for axis, size in hints.items()},
                seconds=nanoseconds / 1e9 if timed and nanoseconds else None,
            )
            part.add(self._recorder, tuned)


def _configuration(launcher: Any, took: float, found: dict[str, Any]) -> TimedConfiguration:
    return TimedConfiguration(str(launcher.config), seconds=took / 1e3 if math.isfinite(took) else None, **found)
