"""Record the kernels of a run with `--build`: how Triton compiles them, and how long their launches take.

Kernels are compiled in this process instead of Inductor's compile workers (2.11 to 2.13,
_inductor/async_compile.py), because Triton reports its times by stage only in the process where it runs. Autotuning
candidates still use the workers. The run has its own Triton cache (`torch_log/caches.py`), so that every compilation
is measured.
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import ModuleType
from typing import Any
from weakref import WeakSet

from ctrace.inspector.capture.built_kernels.configurations import Configurations
from ctrace.inspector.capture.built_kernels.kernel_times import KernelTimes
from ctrace.inspector.capture.built_kernels.triton_builds import TritonBuilds, name_of
from ctrace.inspector.capture.core.part import Part
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.source import Source, When


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
        theirs = knobs.compilation.listener

        def listener(**facts: Any) -> None:
            with self._recorder.watching("a Triton compilation"):
                known = ("metadata", "metadata_group", "times", "cache_hit")
                self._builds.listen(**{name: facts[name] for name in known})
            if theirs is not None:
                theirs(**facts)

        patches.enter_context(patched(knobs.compilation, "listener", listener))

    def _watch_modules(self, graph: ModuleType, patches: ExitStack) -> None:
        original = graph.GraphLowering.compile_to_module

        def compile_to_module(lowering: Any) -> Any:
            outer, self._loading.part = getattr(self._loading, "part", None), Part.under_way()
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
        use_workers, triton = compiler.use_process_pool, compiler.triton

        def use_process_pool(_cls: Any) -> bool:
            return getattr(self._loading, "part", None) is None and bool(use_workers())

        def compile_triton(self_: Any, *args: Any, **kwargs: Any) -> Any:
            kernel = triton(self_, *args, **kwargs)
            part = getattr(self._loading, "part", None)
            if part is not None and hasattr(kernel, "compile_results"):
                with self._recorder.watching("a compiled kernel"):
                    self._builds.belongs(kernel, part)
            return kernel

        patches.enter_context(patched(compiler, "use_process_pool", classmethod(use_process_pool)))
        patches.enter_context(patched(compiler, "triton", compile_triton))

    def _watch_autotuners(self, heuristics: ModuleType, patches: ExitStack) -> None:
        autotuner = heuristics.CachingAutotuner
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
            if kernel not in launched:
                launched.add(kernel)
                with self._recorder.watching("the configuration that a kernel is launched with"):
                    self._builds.launched(kernel)
                    self._configurations.launched(kernel, name_of(kernel), self._builds.parts_of(kernel))
            return result

        self._configurations.install(heuristics, patches)
        patches.enter_context(patched(autotuner, "_precompile_config", precompile_config))
        patches.enter_context(patched(autotuner, "run", launch))
