"""Compare `ctrace time` with torch's own timer, and with itself: eager compared with eager must not differ.

1. Null experiment: both sides are the same eager model; at least 19 of 20 measurements must find no difference.
2. Overhead: blocks of the same compiled call, as `ctrace time` times them with its callbacks in place, against a plain
   loop without them, alternately; the median ratio must be within 5%.
3. Agreement, on a quiet machine: the same compiled call, timed by blocks of `ctrace time` with its callbacks, and by
   `torch.utils.benchmark` without them, alternately, in both orders; the median ratio must be within 5%. Both take the
   lower quartile of their blocks.

usage: time_truth.py [NULLS] [PAIRS]; 0 PAIRS leave out the last one
"""

import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch.utils.benchmark import Timer

from ctrace.inspector.capture.calls import stopwatch
from ctrace.inspector.capture.calls.timed_rounds import Bench, Compilations, run_rounds, warm_up
from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.facts.rounds import RoundDone
from ctrace.inspector.features.time.child.timing_main import Skips
from ctrace.inspector.features.time.events import Event
from ctrace.inspector.findings.ratios import RatioVerdict, compared

LEAST_EQUAL = 0.95
CLOSE = 0.05
ROUNDS, BLOCKS = 45, 20
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def models() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Return models whose calls take from ten microseconds to some milliseconds."""
    torch.manual_seed(0)
    small = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.LayerNorm(64), torch.nn.ReLU())
    layers = [torch.nn.Linear(512, 512), torch.nn.GELU(), torch.nn.Linear(512, 512), torch.nn.GELU()]
    large = torch.nn.Sequential(*layers)
    return {
        "pointwise": (lambda x: torch.relu(x + 1), (torch.rand(1000, device=DEVICE),)),
        "small": (small.to(DEVICE), (torch.rand(32, 64, device=DEVICE),)),
        "large": (large.to(DEVICE), (torch.rand(128, 512, device=DEVICE),)),
    }


def bench(sides: tuple[Any, Any], inputs: tuple[Any, ...], compilations: Compilations) -> tuple[Bench, list[Event]]:
    """Return a warmed-up `Bench` like that of `ctrace time`, and the list that receives its rounds."""
    events: list[Event] = []
    made = Bench(
        scenario="base",
        part="forward",
        sides=sides,
        block=stopwatch.forward,
        make=lambda: Call(inputs, {}),
        fresh=False,
        compilations=compilations,
        record=events.append,
        device=DEVICE,
    )
    for side in (0, 1):
        warm_up(made, side)
    return made, events


def measured(sides: tuple[Any, Any], inputs: tuple[Any, ...], rounds: int | None) -> list[RoundDone]:
    """Measure as `ctrace time` does, its callbacks included."""
    compilations, skips = Compilations(), Skips()
    with ExitStack() as active:
        active.enter_context(compilations.counting())
        active.enter_context(skips.recording())
        made, events = bench(sides, inputs, compilations)
        run_rounds(made, rounds)
    return [each for each in events if isinstance(each, RoundDone)]


def nulls(number: int) -> bool:
    """Compare eager with itself; return whether enough measurements find no difference."""
    fine = True
    for name, (model, inputs) in models().items():
        found: Counter[str] = Counter()
        for _ in range(number):
            rounds = measured((model, model), inputs, None)
            found[str(compared([each.eager for each in rounds], [each.compiled for each in rounds]).verdict)] += 1
        share = found[str(RatioVerdict.NO_DIFFERENCE)] / number
        print(f"eager against eager, {name}: {dict(found)}, {share:.0%} without a difference", flush=True)
        fine = fine and share >= LEAST_EQUAL
    return fine


def plain(model: Any, inputs: tuple[Any, ...], calls: int) -> float:
    """Time a plain loop."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(calls):
        model(*inputs)
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def overhead() -> bool:
    """Alternate blocks with and without ctrace's callbacks; return whether they take the same time."""
    fine = True
    for name, (model, inputs) in models().items():
        compiled: Any = torch.compile(model)
        for _ in range(5):
            compiled(*inputs)
        calls = max(int(0.002 / min(plain(compiled, inputs, 1) for _ in range(5))), 1)
        wait = stopwatch.synchronizer(DEVICE)
        rounds: list[tuple[float, float]] = []
        for _ in range(ROUNDS):
            times: tuple[list[float], list[float]] = [], []
            for number in range(BLOCKS):
                for side in (number % 2, 1 - number % 2):
                    with ExitStack() as active:
                        if side:
                            active.enter_context(Compilations().counting())
                            active.enter_context(Skips().recording())
                            times[1].append(stopwatch.forward(compiled, [Call(inputs, {})] * calls, wait))
                        else:
                            times[0].append(plain(compiled, inputs, calls))
            rounds.append((sorted(times[0])[BLOCKS // 4], sorted(times[1])[BLOCKS // 4]))
        found = compared([with_ for _, with_ in rounds], [without for without, _ in rounds])
        ratio = found.ratio
        spread = f"{ratio.low:.3f} to {ratio.high:.3f}"
        print(f"with ctrace against without, {name}: {ratio.median:.3f} ({spread}, {ROUNDS} rounds)", flush=True)
        fine = fine and abs(ratio.median - 1) <= CLOSE
    return fine


def agreement(pairs: int) -> bool:
    """Time the same compiled call with both; return whether they agree."""
    fine = True
    for name, (model, inputs) in models().items():
        compiled: Any = torch.compile(model)
        for _ in range(5):
            compiled(*inputs)

        def ours(call: Callable[..., Any] = compiled, inputs: tuple[Any, ...] = inputs) -> float:
            return statistics.median(each.eager for each in measured((call, call), inputs, 8))

        def theirs(call: Callable[..., Any] = compiled, inputs: tuple[Any, ...] = inputs) -> float:
            names = {"call": call, "inputs": inputs}
            timer = Timer("call(*inputs)", globals=names, num_threads=torch.get_num_threads())
            times = timer.blocked_autorange(min_run_time=0.3).times
            # the lower quartile, as in a round, so that a loaded machine disturbs both alike
            return sorted(times)[(len(times) - 1) // 4]

        ratios = []
        for number in range(pairs):
            first, second = (ours, theirs) if number % 2 == 0 else (theirs, ours)
            one, other = first(), second()
            ratios.append(one / other if first is ours else other / one)
        middle = statistics.median(ratios)
        spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
        print(f"ctrace against torch's timer, {name}: {middle:.3f} ({spread}, {pairs} pairs)", flush=True)
        fine = fine and abs(middle - 1) <= CLOSE
    return fine


def main() -> int:
    """Measure; return 1 if a limit is exceeded."""
    torch.set_num_threads(1)
    number, pairs = [*map(int, sys.argv[1:]), *(20, 6)[len(sys.argv) - 1 :]][:2]
    results = [overhead(), nulls(number), *([agreement(pairs)] if pairs else [])]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
