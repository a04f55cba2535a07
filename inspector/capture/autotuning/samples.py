"""Read each run that torch times when it measures a choice; torch itself keeps one number for all runs.

`benchmark_cpu` takes the median of its runs, `InductorBenchmarker.benchmark_gpu` the minimum of its pairs of events,
first of a few runs to estimate, then of the runs that count (2.11 to 2.15, _inductor/runtime/benchmarking.py). Both are
read where torch reduces them, after the runs, so that reading slows no run down. Other ways to measure, such as
`TorchProfilerBenchmarker`, have one number from the start.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from statistics import quantiles
from types import ModuleType
from typing import Any

from msgspec.structs import asdict

from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.facts.autotuning import TimeSpread


class Samples:
    """Collects the runs of each measurement, by thread."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._now = threading.local()

    @contextmanager
    def reading(self) -> Iterator[list[float]]:
        """Yield the milliseconds of the runs that this block measures; empty: torch keeps one number."""
        outer = getattr(self._now, "runs", None)
        runs: list[float] = []
        self._now.runs = runs
        try:
            yield runs
        finally:
            self._now.runs = outer

    def install(self, benchmarking: ModuleType, patches: ExitStack) -> None:
        """Read the runs of every measurement of torch's module `benchmarking`."""
        # `median` is a name in the module, which `benchmark_cpu` looks up at each call.
        median, benchmarker = benchmarking.median, benchmarking.InductorBenchmarker
        shortest = benchmarker.get_event_pairs_min_timing

        def read_median(runs: Sequence[float]) -> float:
            self._take(runs)
            return float(median(runs))

        def read_shortest(self_: Any, event_pairs: Any) -> Any:
            # Reading the events twice costs nothing: they have ended when torch asks for the minimum.
            if getattr(self._now, "runs", None) is not None:
                with self._recorder.watching("the runs of a choice"):
                    self._take([start.elapsed_time(end) for start, end in event_pairs])
            return shortest(self_, event_pairs)

        patches.enter_context(patched(benchmarking, "median", read_median))
        patches.enter_context(patched(benchmarker, "get_event_pairs_min_timing", read_shortest))

    def _take(self, runs: Sequence[float]) -> None:
        kept = getattr(self._now, "runs", None)
        if kept is not None:
            # Replaces: torch estimates with a few runs first, and only the last group counts.
            kept[:] = runs


def spread(runs: Sequence[float]) -> dict[str, Any]:
    """Sum up the milliseconds of runs for the log, as the fields of `TimeSpread`; empty for fewer than two runs."""
    if len(runs) < 2:
        return {}
    low, median, high = quantiles(runs, n=4, method="inclusive")
    return asdict(TimeSpread(len(runs), min(runs) / 1e3, low / 1e3, median / 1e3, high / 1e3))
