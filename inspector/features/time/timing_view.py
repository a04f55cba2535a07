"""Query the measurements: the best configuration, when compiling pays off, and how a call spends its time."""

import math
from collections.abc import Sequence

from msgspec import Struct

from ctrace.inspector.features.time.events import SharesMeasured
from ctrace.inspector.features.time.timing_model import MeasuredConfiguration, Timings
from ctrace.inspector.findings.ratios import Interval, RatioVerdict, quotient, verdict_of

EAGER = "eager"
_CPP = "cpp_fused"
"""The prefix of the names of Inductor's C++ kernels."""
_CROWDED = 1.0
"""A load per core above this disturbs the times."""


def break_even(measured: MeasuredConfiguration) -> int | None:
    """Return the number of calls after which compiling has paid off; None if it never does, or if not known."""
    part, seconds = measured.first, measured.compile_seconds
    # A saving within the noise would pay off after any number of calls.
    if part is None or part.speedup is None or part.speedup.verdict is not RatioVerdict.FASTER or seconds is None:
        return None
    saved = part.saved
    if saved is not None and saved > 0:
        return math.ceil(seconds / saved)
    return None


def crowd(measured: MeasuredConfiguration) -> float | None:
    """Return the load per core before the measurement if it was above 1, else None."""
    if measured.load is None or measured.setup is None:
        return None
    each = measured.load / measured.setup.cores
    if each > _CROWDED:
        return each
    return None


_DISTURBED = 5.0
"""A profiled call takes up to a few times as long as the timed one: the profiler costs about 1 us per op."""


class Share(Struct, frozen=True):
    """A part of a call's time, eager and compiled, in seconds; None if not measured or if there is no such part."""

    name: str
    eager: float | None
    compiled: float | None


class Breakdown(Struct, frozen=True):
    """How a call spends its time, measured with the profiler on."""

    scenario: str
    part: str
    program: tuple[Share, ...]
    """The parts of the program's time; they add up to the call."""
    gpu: tuple[Share, ...]
    """The parts of the GPU's time, which also add up to the call; empty without a GPU."""
    calls: Share
    launched: Share
    timed: Share
    """The medians of the rounds, without the profiler."""

    @property
    def is_disturbed(self) -> bool:
        """Whether the profiled calls took so much longer than the timed ones that they do not explain them."""
        pairs = ((self.calls.eager, self.timed.eager), (self.calls.compiled, self.timed.compiled))
        return any(_is_disturbed(profiled, timed) for profiled, timed in pairs)


def _is_disturbed(profiled: float | None, timed: float | None) -> bool:
    return profiled is not None and timed is not None and profiled > _DISTURBED * timed


def compiled_shares(measured: MeasuredConfiguration) -> SharesMeasured | None:
    """Return how a compiled call spends its time; None: not measured, or what disturbed the calls is in it."""
    found = next((each for each in measured.shares if each.side == "compiled"), None)
    if found is None or _is_disturbed(found.call, _timed(measured, found.scenario, found.part).compiled):
        return None
    return found


def _timed(measured: MeasuredConfiguration, scenario: str, part: str) -> Share:
    found = next((each for each in measured.parts if (each.scenario, each.part) == (scenario, part)), None)
    if found is None:
        return Share("timed", None, None)
    eager = None
    if found.eager is not None:
        eager = found.eager.median
    compiled = None
    if found.compiled is not None:
        compiled = found.compiled.median
    return Share("timed", eager, compiled)


_NAMES = (
    ("guards", "guards"),
    ("runtime", "Dynamo, AOTAutograd"),
    ("wrapper", "Inductor's wrapper"),
    ("launches", "launches"),
    ("ops", "torch ops"),
)


def breakdowns(measured: MeasuredConfiguration) -> tuple[Breakdown, ...]:
    """Return how calls spend their time, for each profiled scenario."""
    found = []
    for scenario in dict.fromkeys(each.scenario for each in measured.shares):
        sides = {each.side: each for each in measured.shares if each.scenario == scenario}
        eager, compiled = sides.get("eager"), sides.get("compiled")
        if eager is not None and compiled is not None:
            timed = _timed(measured, scenario, compiled.part)
            found.append(_breakdown(eager, compiled, timed))
    return tuple(found)


def _breakdown(eager: SharesMeasured, compiled: SharesMeasured, timed: Share) -> Breakdown:
    # On a CPU, the profiler sees no launches and no waits.
    on_gpu = compiled.gaps is not None or compiled.launches is not None
    program = [Share(name, getattr(eager, field), getattr(compiled, field)) for field, name in _NAMES]
    if not on_gpu:
        program.append(Share("C++ kernels", None, compiled.kernels))
    program = [each for each in program if each.eager or each.compiled]
    program.append(Share("everything else", _rest(eager.call, program, 0), _rest(compiled.call, program, 1)))
    gpu = (Share("GPU computes", eager.kernels, compiled.kernels), Share("GPU waits", eager.gaps, compiled.gaps))
    return Breakdown(
        compiled.scenario,
        compiled.part,
        tuple(program),
        gpu if on_gpu else (),
        Share("call", eager.call, compiled.call),
        Share("launches a call", eager.launched, compiled.launched),
        timed,
    )


def _rest(call: float, shares: Sequence[Share], side: int) -> float:
    known = (each.compiled if side else each.eager for each in shares)
    # Parts are measured with the profiler on, each with its own error.
    return max(call - sum(each for each in known if each is not None), 0.0)


def fixed_costs(measured: MeasuredConfiguration) -> float | None:
    """Return the share of a compiled call that does not depend on sizes: guards, runtime, wrapper and launches."""
    found = compiled_shares(measured)
    if found is None or not found.call:
        return None
    costs = (found.guards, found.runtime, found.wrapper, found.launches)
    return sum(each for each in costs if each is not None) / found.call


def kernels_a_call(measured: MeasuredConfiguration) -> int | None:
    """Return how many kernels a compiled call runs, on a CPU only those of Inductor; None: not measured."""
    found = next((each for each in measured.shares if each.side == "compiled"), None)
    if found is None:
        return None
    # The profiler lists kernels of a GPU; on a CPU, its list has ops of torch as well.
    is_counted = found.gaps is not None
    return round(sum(each.times for each in found.kernel_list if is_counted or each.name.startswith(_CPP)))


class Rank(Struct, frozen=True):
    """How one configuration compares with the best."""

    measured: MeasuredConfiguration
    against: Interval | None
    """How many times faster the best configuration is; None if this configuration was not measured."""
    verdict: RatioVerdict | None


class Ranking(Struct, frozen=True):
    """The best configuration, if there is one."""

    best: str | None
    """`eager` if it is the fastest; None if two or more cannot be distinguished, or if nothing was measured."""
    tied: tuple[str, ...]
    """The names of the configurations that cannot be distinguished from the best."""
    lead: MeasuredConfiguration | None
    """The configuration with the largest speed-up, with which the others are compared."""
    ranks: tuple[Rank, ...]
    noise: float
    """The factor by which the times of eager differ between processes."""


def ranking(timings: Timings) -> Ranking:
    """Compare all configurations by their speed-up over eager, which each process measures too.

    Even the same work, such as eager, takes different times in two processes; only larger differences count.
    """
    measured = [each for each in timings.configurations if _ratio(each) is not None]
    noise = _noise(measured)
    if not measured:
        return Ranking(None, (), None, tuple(Rank(each, None, None) for each in timings.configurations), noise)
    lead = max(measured, key=lambda each: _median(each))
    ranks = tuple(_rank(lead, each, noise) for each in timings.configurations)
    tied = [each.measured.configuration.name for each in ranks if _is_tied(each)]
    of_lead = _verdict(lead)
    # If the best one is not faster than eager, none is.
    if of_lead is not RatioVerdict.FASTER:
        if of_lead is RatioVerdict.SLOWER:
            return Ranking(EAGER, (), lead, ranks, noise)
        return Ranking(None, (EAGER, *_not_slower(measured)), lead, ranks, noise)
    name = lead.configuration.name
    if tied == [name]:
        return Ranking(name, (), lead, ranks, noise)
    return Ranking(None, tuple(tied), lead, ranks, noise)


def _not_slower(measured: Sequence[MeasuredConfiguration]) -> list[str]:
    return [each.configuration.name for each in measured if _verdict(each) is not RatioVerdict.SLOWER]


def _is_tied(rank: Rank) -> bool:
    return rank.verdict in (RatioVerdict.NO_DIFFERENCE, RatioVerdict.UNDECIDED)


def _rank(lead: MeasuredConfiguration, each: MeasuredConfiguration, noise: float) -> Rank:
    best, own = _ratio(lead), _ratio(each)
    if best is None or own is None:
        return Rank(each, None, None)
    if each is lead:
        return Rank(each, Interval(1.0, 1.0, 1.0, own.rounds, own.confidence), RatioVerdict.NO_DIFFERENCE)
    against = quotient(best, own, noise)
    return Rank(each, against, verdict_of(against))


def _noise(measured: Sequence[MeasuredConfiguration]) -> float:
    """Return the largest factor between the eager times of two processes."""
    parts = [each.first for each in measured]
    medians = [part.eager.median for part in parts if part is not None and part.eager is not None]
    if medians and min(medians) > 0:
        return max(medians) / min(medians)
    return 1.0


def _ratio(measured: MeasuredConfiguration) -> Interval | None:
    part = measured.first
    if part is not None and part.speedup is not None:
        return part.speedup.ratio
    return None


def _verdict(measured: MeasuredConfiguration) -> RatioVerdict | None:
    part = measured.first
    if part is not None and part.speedup is not None:
        return part.speedup.verdict
    return None


def _median(measured: MeasuredConfiguration) -> float:
    ratio = _ratio(measured)
    if ratio is None:
        return 0.0
    return ratio.median


def has_failed(measured: MeasuredConfiguration) -> bool:
    """Whether some measurements of a configuration are missing because it failed or was stopped."""
    return bool(measured.failures or measured.stopped)
