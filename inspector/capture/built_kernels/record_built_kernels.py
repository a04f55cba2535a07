"""Record the kernels of a run with `--build`: how Triton compiles them, and how long their launches take.

Kernels are compiled in this process instead of Inductor's compile workers (2.11 to 2.13, _inductor/async_compile.py),
because Triton reports its times by stage only in the process where it runs. Autotuning candidates still use the
workers. The run has its own Triton cache (`torch_log/record_caches.py`), so that every compilation is measured.

Record which of its configurations a Triton kernel is launched with, what each one took, and whether a cache knew.

Inductor times a kernel's configurations at its first launch (`CachingAutotuner.benchmark_all_configs`), unless the file
beside the kernel's source names the best one (`check_autotune_cache`; 2.11 to 2.15, _inductor/runtime/
triton_heuristics.py). A user's `triton.autotune` goes the same way: Inductor times once, and leaves out the user's key.
Coordinate descent, which max-autotune turns on, then times neighbors of the best one, one at a time.
"""

import math
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from ctrace.inspector.capture.autotuning.samples import Samples, spread
from ctrace.inspector.capture.built_kernels.kernel_times import KernelTimes
from ctrace.inspector.capture.built_kernels.triton_builds import TritonBuilds, name_of
from ctrace.inspector.capture.core.part import PartIdentity
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.source import Source, When
from ctrace.inspector.facts.autotuning import KernelTuned, TimedConfiguration


def built_kernels(*, timing: bool) -> Source:
    """Make the source that records the kernels that are compiled, and with `timing` the times of their launches."""

    @contextmanager
    def source(recorder: Recorder, when: When) -> Iterator[None]:
        hooks = _Hooks(recorder, timing=timing)
        with ExitStack() as patches:
            for name, install in hooks.installers.items():
                when(name, partial(install, patches=patches))
            try:
                yield
            finally:
                hooks.times.end()

    return source


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
        hints = kernel.size_hints if isinstance(kernel.size_hints, dict) else {}  # None for a user's kernel
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
