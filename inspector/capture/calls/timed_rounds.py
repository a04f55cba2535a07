"""Time both sides of one part of a scenario: warm up until times settle (`warm_up`), then alternate (`run_rounds`).

A round counts only if torch compiled and recorded nothing in it (`Compilations`). Torch's own callbacks say so: it
calls them when a compilation, a delayed backward or the recording of a CUDA graph begins, and not in any other call
(_dynamo/callback.py, 2.11 to 2.13).
"""

import gc
import math
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.capture.calls.stopwatch import Block, synchronizer, without_collector
from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.facts.rounds import RoundDone, WarmedUp
from ctrace.inspector.findings.ratios import is_enough

_RECORDING = "CUDAGRAPH_RECORDING"


class Compilations:
    """Counts compilations and recordings of CUDA graphs."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count in this block."""
        from torch._dynamo.callback import callback_handler

        callback_handler.register_start_callback(self._began)
        try:
            yield
        finally:
            callback_handler.remove_start_callback(self._began)

    def _began(self, arguments: Any = None) -> None:
        self._counts[str(getattr(getattr(arguments, "callback_trigger", None), "name", "DYNAMO"))] += 1

    @property
    def recordings(self) -> int:
        """CUDA graphs recorded so far."""
        return self._counts[_RECORDING]

    @property
    def total(self) -> int:
        """All compilations and recordings so far."""
        return self._counts.total()


_QUIET = 6
"""Calls in a row that must compile nothing before times count: CUDA graphs are recorded at the third."""
_STEADY = 0.1
"""Times have settled if the medians of the last three calls and of the three before differ by this fraction or less."""
# A model whose times keep changing never settles.
_MOST_CALLS = 60
_WARM_UP_SECONDS = 10.0
"""How long to wait for times to settle after the last compilation."""
_COMPILES_ALWAYS = 20
"""Stop warming up after this many calls if the last call still compiled."""
_BLOCK_SECONDS = {"cpu": 0.002, "gpu": 0.01}
"""Minimum length of a block: far longer than the clock's resolution and the wait for a GPU. On a CPU, blocks are short,
so that another process that takes the core for some milliseconds disturbs fewer of them."""
_MOST_IN_BLOCK = 5000
"""Calls of a block: below a microsecond each, more calls would not time a call better."""
_ROUND_SECONDS = 0.04
"""Total length of one side's blocks in a round, if calls are short."""
_MOST_BLOCKS = 16
"""Blocks of a round, so that a drift of the clock shows between rounds and not inside of one."""
_LONGEST = 30.0
"""After this many seconds, a part gets only the rounds that a confidence interval needs (`_LEAST`)."""
_MOST_UNCLEAN = 10
"""Rounds in which something compiles do not count; stop after this many of them."""


class Bench(Struct):
    """The two sides to time: the same model in eager and compiled, with the same inputs."""

    scenario: str
    part: str
    sides: tuple[Any, Any]
    block: Block
    make: Callable[[], Call]
    fresh: bool
    compilations: Compilations
    record: Callable[[WarmedUp | RoundDone], None]
    device: str = "cpu"
    """The type of device that the model computes on."""
    cached: Call | None = None
    single: list[float] = field(default_factory=list)
    """Seconds of one call of each side, after warming up."""

    def calls(self, count: int) -> Sequence[Call]:
        """Return the arguments of `count` calls: the same ones for all, or new ones for each."""
        # Inputs that a call changes must be new for each, or each call would time other values.
        if self.fresh:
            return [self.make() for _ in range(count)]
        # Made once: drawing inputs for each block would take longer than some models.
        if self.cached is None:
            self.cached = self.make()
        return [self.cached] * count

    def seconds(self, side: int, count: int) -> float:
        """Return the seconds of one call, as the mean of a block."""
        return self.run(side, self.calls(count)) / count

    def run(self, side: int, calls: Sequence[Call]) -> float:
        """Return the seconds of one block of calls."""
        return self.block(self.sides[side], calls, synchronizer(self.device))


def warm_up(bench: Bench, side: int, *, only_compile: bool = False) -> None:
    """Call one side until nothing compiles and its times settle, and record each call."""
    times: list[float] = []
    compiled: list[int] = []
    before_all = bench.compilations.recordings
    quiet, since = 0, time.monotonic()
    is_settled = False
    while not is_settled:
        before = bench.compilations.total
        times.append(bench.seconds(side, 1))
        if bench.compilations.total != before:
            compiled.append(len(times) - 1)
            quiet, since = 0, time.monotonic()
        else:
            quiet += 1
        is_settled = (quiet >= _QUIET and _is_steady(times)) or (only_compile and quiet >= _QUIET)
        # At least two calls without a compilation, since the length of blocks follows from their times.
        if len(times) >= _MOST_CALLS or (quiet >= 2 and time.monotonic() - since > _WARM_UP_SECONDS):
            break
        # A model that compiles in each call never settles, and its warm-up would take the whole limit.
        if not quiet and len(times) >= _COMPILES_ALWAYS:
            break
    # The shortest: a block that is sized by a disturbed call would be too short.
    bench.single.append(min(times[-_QUIET:]))
    found = WarmedUp(
        bench.scenario,
        bench.part,
        ("eager", "compiled")[side],
        tuple(times),
        tuple(compiled),
        bench.compilations.recordings - before_all,
        is_settled,
    )
    bench.record(found)


def _is_steady(times: Sequence[float]) -> bool:
    last, before = statistics.median(times[-3:]), statistics.median(times[-6:-3])
    return abs(last - before) <= _STEADY * before


def run_rounds(bench: Bench, rounds: int | None) -> None:
    """Alternate both sides for `rounds` rounds, or until there are enough, and record each round."""
    least = _BLOCK_SECONDS["cpu" if bench.device == "cpu" else "gpu"]
    # Each side by its own speed, so that a block of the faster one is long enough, too.
    counts = [max(1, min(math.ceil(least / each), _MOST_IN_BLOCK)) for each in bench.single]
    # Both sides get equally many blocks, so the slower one decides how many fit.
    longest = max(count * each for count, each in zip(counts, bench.single, strict=True))
    blocks = max(1, min(int(_ROUND_SECONDS / longest), _MOST_BLOCKS))
    rule = _StopRule(rounds)
    with without_collector():
        while not rule.is_over():
            _run_round(bench, rule, counts, blocks)
            # Between rounds, where it disturbs neither side.
            gc.collect()


def _run_round(bench: Bench, rule: "_StopRule", counts: Sequence[int], blocks: int) -> None:
    # A compilation in a round would be timed as a part of the calls.
    before = bench.compilations.total
    times: tuple[list[float], list[float]] = [], []
    for side in _sides(rule.number, blocks):
        times[side].append(bench.seconds(side, counts[side]))
    eager, compiled = map(_undisturbed, times)
    is_clean = bench.compilations.total == before
    rule.add(eager, compiled, is_clean=is_clean)
    bench.record(RoundDone(bench.scenario, bench.part, eager, compiled, is_clean))


def _undisturbed(times: Sequence[float]) -> float:
    """Return the lower quartile, because other processes only add time, and only to some blocks."""
    return sorted(times)[(len(times) - 1) // 4]


def _sides(number: int, blocks: int) -> Iterator[int]:
    """Yield the side of each block of a round: each side equally often, in pairs of random order.

    A fixed order could fall in step with the system's scheduler, so that the same side always waits.
    """
    # Seeded by the round: the order is random, and the same in each run.
    chance = random.Random(number)
    for _ in range(blocks):
        first = chance.randrange(2)
        yield from (first, 1 - first)


class _StopRule:
    """Decides when there are enough rounds."""

    def __init__(self, rounds: int | None) -> None:
        self._rounds = rounds
        self._began = time.monotonic()
        self._eager: list[float] = []
        self._compiled: list[float] = []
        self.number = 0

    def add(self, eager: float, compiled: float, *, is_clean: bool) -> None:
        """Count a round."""
        self.number += 1
        if is_clean:
            self._eager.append(eager)
            self._compiled.append(compiled)

    def is_over(self) -> bool:
        clean = len(self._eager)
        # A model that goes on compiling never gets enough rounds.
        if self.number - clean >= _MOST_UNCLEAN:
            return True
        if self._rounds is not None:
            return clean >= self._rounds
        if clean >= _LEAST and time.monotonic() - self._began > _LONGEST:
            return True
        return is_enough(self._eager, self._compiled)


_LEAST = 8
"""Number of rounds that an interval of 99% confidence needs."""
