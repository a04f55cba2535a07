"""What is recorded of a selection of algorithms that fails in every way, with choices that are made up."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("torch")

from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.kernels.record_autotuning import autotuning
from ctrace.inspector.facts.autotuning import ChoiceStatus, TunedOperation
from ctrace.inspector.facts.wire import Record, payload_of
from ctrace.inspector.findings.autotuning_fold import tuned_of
from ctrace.inspector.log.collected_log import CollectedLog
from tests.support.helpers import decoded

SELECT, BENCHMARKING = "torch._inductor.select_algorithm", "torch._inductor.runtime.benchmarking"


class Kept:
    """A recorder that keeps what it is handed."""

    def __init__(self) -> None:
        self.records: list[Any] = []

    def add(self, record: Record, at: object = None) -> None:
        self.records.append(decoded(record.KIND, payload_of(record)))

    @contextmanager
    def watching(self, _what: str) -> Iterator[None]:
        yield

    def tuned(self) -> tuple[TunedOperation, ...]:
        raw = CollectedLog(environment={"built": True})
        raw.autotuning += self.records
        return tuned_of(raw)


class Node:
    def get_size(self) -> list[int]:
        return [2, 3]

    def get_stride(self) -> list[int]:
        return [3, 1]

    def get_dtype(self) -> str:
        return "torch.float32"

    def get_device(self) -> Any:
        return SimpleNamespace(type="cuda")


class Choice:
    description = "BLOCK_M=64"

    def __init__(self, name: str, milliseconds: float = 1.0, error: Exception | None = None) -> None:
        self.name = name
        self.milliseconds = milliseconds
        self.error = error
        self.failed = False


def module(*, is_cached: bool = False, broken: Exception | None = None, returns_node: bool = False) -> Any:  # noqa: C901 - one class
    """Return what select_algorithm.py has, as far as it is watched; `returns_node` as 2.11 does by default."""

    class AlgorithmSelectorCache:
        def __call__(self, name: str, choices: list[Choice], input_nodes: list[Node]) -> Any:
            times = self.do_autotuning(name, input_nodes, choices)
            best = min(times, key=times.__getitem__)
            return f"node of {best.name}", best

        def do_autotuning(self, name: str, input_nodes: list[Node], choices: list[Choice]) -> dict[Choice, float]:
            if broken is not None:
                choices[0].failed = True
                found._log_autotune_exceptions([(choices[0], broken)])
            sound = [each for each in choices if not each.failed]
            if is_cached:
                return {each: each.milliseconds for each in sound}
            times = self.benchmark(sound)
            self.log_results(name, input_nodes, times, 0.5, 0.25)
            return times

        def benchmark(self, choices: list[Choice]) -> dict[Choice, float]:
            times = {}
            for each in choices:
                try:
                    times[each] = self.benchmark_choice(each)
                except RuntimeError:
                    times[each] = float("inf")
            return times

        @classmethod
        def benchmark_choice(cls, choice: Choice) -> float:
            if choice.error is not None:
                raise choice.error
            return float(timing.median([choice.milliseconds] * 5))

        @staticmethod
        def log_results(name: str, input_nodes: Any, timings: Any, elapse: float, precompile_elapse: float) -> None:
            pass

    if returns_node:
        newer = AlgorithmSelectorCache.__call__

        def select(
            self: Any, name: str, choices: list[Choice], input_nodes: list[Node], return_choice: bool = False
        ) -> Any:
            node, choice = newer(self, name, choices, input_nodes)
            return (node, choice) if return_choice else node

        cast(Any, AlgorithmSelectorCache).__call__ = select
    found = SimpleNamespace(AlgorithmSelectorCache=AlgorithmSelectorCache, _log_autotune_exceptions=lambda _all: None)
    return found


class Benchmarker:
    def get_event_pairs_min_timing(self, pairs: Any) -> float:
        return 0.0


timing = SimpleNamespace(median=lambda runs: sorted(runs)[len(runs) // 2], InductorBenchmarker=Benchmarker)


def select(fake: Any, *choices: Choice) -> tuple[Any, TunedOperation]:
    """Let the watched module choose; return what it returns, and what was recorded."""
    kept = Kept()
    modules = {SELECT: fake, BENCHMARKING: timing}

    def when(name: str, action: Callable[[Any], None]) -> None:
        if name in modules:
            action(modules[name])

    with autotuning(cast(Recorder, kept), cast(Any, when)):
        answer = fake.AlgorithmSelectorCache()("mm", list(choices), [Node(), Node()])
    (found,) = kept.tuned()
    return answer, found


def test_times_spread_costs_and_the_taken_choice() -> None:
    slow, fast = Choice("mm", 2.0), Choice("triton_mm_0", 1.0)
    answer, found = select(module(), slow, fast)
    assert answer == ("node of triton_mm_0", fast)
    assert [(each.name, each.seconds) for each in found.choices] == [("triton_mm_0", 1e-3), ("mm", 2e-3)]
    assert all(each.spread is not None and each.spread.runs == 5 for each in found.choices)
    assert (found.taken, found.is_cached) == ("triton_mm_0", False)
    assert (found.compile_seconds, found.timing_seconds) == (0.25, 0.5)
    assert [(each.shape, each.dtype, each.device) for each in found.inputs] == [(("2", "3"), "float32", "cuda")] * 2


def test_a_choice_that_cannot_be_built_or_run_has_its_error() -> None:
    failing = Choice("triton_mm_1", error=RuntimeError("invalid argument"))
    _, found = select(module(broken=ValueError("at 3:4")), Choice("triton_mm_0"), failing, Choice("mm"))
    outcomes = {each.name: (each.status, each.error) for each in found.choices}
    assert outcomes["triton_mm_0"] == (ChoiceStatus.FAILED_TO_COMPILE, "ValueError: at 3:4")
    assert outcomes["triton_mm_1"] == (ChoiceStatus.FAILED_TO_RUN, "RuntimeError: invalid argument")
    assert outcomes["mm"] == (ChoiceStatus.TIMED, "")


def test_times_from_a_cache_are_marked_and_have_no_spread() -> None:
    _, found = select(module(is_cached=True), Choice("mm", 2.0), Choice("triton_mm_0", 1.0))
    assert found.is_cached
    assert [each.spread for each in found.choices] == [None, None]
    assert (found.compile_seconds, found.timing_seconds) == (None, None)


def test_a_sweep_that_raises_is_recorded_and_raises() -> None:
    with pytest.raises(ValueError, match="min"):
        select(module(broken=ValueError("no")), Choice("mm"))


def test_the_program_gets_what_2_11_returns() -> None:
    answer, found = select(module(returns_node=True), Choice("mm", 2.0), Choice("triton_mm_0", 1.0))
    assert answer == "node of triton_mm_0"
    assert found.taken == "triton_mm_0"


def test_a_torch_without_these_places_is_refused() -> None:
    with pytest.raises(AttributeError):
        select(SimpleNamespace(AlgorithmSelectorCache=Benchmarker), Choice("mm"))
