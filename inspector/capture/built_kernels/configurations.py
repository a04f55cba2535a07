"""Record which of its configurations a Triton kernel is launched with, what each one took, and whether a cache knew.

Inductor times a kernel's configurations at its first launch (`CachingAutotuner.benchmark_all_configs`), unless the file
beside the kernel's source names the best one (`check_autotune_cache`; 2.11 to 2.15, _inductor/runtime/
triton_heuristics.py). A user's `triton.autotune` goes the same way: Inductor times once, and leaves out the user's key.
Coordinate descent, which max-autotune turns on, then times neighbors of the best one, one at a time.
"""

import math
from collections.abc import Iterable
from contextlib import ExitStack
from functools import wraps
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from ctrace.inspector.capture.autotuning.samples import Samples, spread
from ctrace.inspector.capture.core.part import Part
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.facts.autotuning import KernelTuned, TimedConfiguration


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
            with self.samples.reading() as runs:
                took = bench(kernel, launcher, *args, **kwargs)
            with self._recorder.watching("the time of a kernel's configuration"):
                found = _configuration(launcher, took, spread(runs))
                self._timed.setdefault(kernel, {}).setdefault(found.name, found)
            return took

        patches.enter_context(patched(autotuner, "bench", watched_bench))

    def launched(self, kernel: Any, name: str, parts: Iterable[Part]) -> None:
        """Record what is known of a kernel that is launched for the first time; nothing for one configuration."""
        timed = tuple(self._timed.pop(kernel, {}).values())
        cache = str((getattr(kernel, "autotune_cache_info", None) or {}).get("autotune_cache_state", ""))
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
