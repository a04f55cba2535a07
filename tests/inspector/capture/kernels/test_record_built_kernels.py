"""Configurations of a Triton kernel are recorded from every measurement of torch, coordinate descent's included."""

from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

from ctrace.inspector.capture.kernels.record_built_kernels import Configurations
from ctrace.inspector.facts.autotuning import KernelTuned
from ctrace.inspector.facts.kernel_facts import Stage


class Autotuner:
    """Times launchers as `CachingAutotuner` does."""

    autotune_time_taken_ns = 2_000_000_000

    def __init__(self, *configurations: str) -> None:
        self.size_hints = {"x": 64}
        self.autotune_cache_info = {"autotune_cache_state": "miss"}
        self.launchers = [SimpleNamespace(config=name) for name in configurations]

    def bench(self, launcher: Any) -> float:
        return float(len(launcher.config))

    def tune(self, *neighbors: str) -> None:
        """Keep the fastest of all configurations."""
        tried = [*self.launchers, *(SimpleNamespace(config=name) for name in neighbors)]
        self.launchers = [min(tried, key=self.bench)]


class Log:
    """Takes the records."""

    def __init__(self) -> None:
        self.found: list[KernelTuned] = []

    def watching(self, _what: str) -> ExitStack:
        return ExitStack()

    stage = Stage.INFERENCE

    def add(self, _recorder: object, record: KernelTuned) -> None:
        self.found.append(record)


def recorded(kernel: Autotuner, *neighbors: str, times: int = 1) -> list[KernelTuned]:
    log = Log()
    watch = Configurations(log)  # type: ignore[arg-type]
    with ExitStack() as patches:
        watch.install(SimpleNamespace(CachingAutotuner=Autotuner), patches)  # type: ignore[arg-type]
        for _ in range(times):
            kernel.tune(*neighbors)
        watch.launched(kernel, "kernel", [log])  # type: ignore[list-item]
    return log.found


def test_neighbors_that_coordinate_descent_tried_are_configurations() -> None:
    (found,) = recorded(Autotuner("warps: 16", "warps: 128"), "warps: 8")
    assert [each.name for each in found.configurations] == ["warps: 16", "warps: 128", "warps: 8"]
    assert (found.taken, found.seconds) == ("warps: 8", 2.0)


def test_a_configuration_that_was_timed_twice_counts_once() -> None:
    (found,) = recorded(Autotuner("a"), "bb", times=2)
    assert [each.name for each in found.configurations] == ["a", "bb"]


def test_the_same_kernel_launched_without_timing_has_no_record() -> None:
    log = Log()
    Configurations(log).launched(Autotuner("a"), "kernel", [log])  # type: ignore[arg-type, list-item]
    assert not log.found
