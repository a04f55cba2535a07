"""Compare two sets of times: the ratio, its confidence interval, and whether there is a difference.

Each round times both sides, one after the other. A disturbance that lasts longer than a round, such as another process
or a lower clock, affects both sides and cancels in the round's ratio. The interval around the median of these ratios
uses only their ranks and assumes no distribution of the noise. With n independent rounds, the true median lies outside
the k-th smallest and k-th largest value with the probability of fewer than k heads, or tails, in n tosses of a coin.
"""

import math
import statistics
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import ClassVar

from msgspec import Struct

CONFIDENCE = 0.99
"""The intended probability that an interval contains the true median; few rounds reach less."""
LEAST_CONFIDENCE = 0.95
"""If the probability is lower than this, there are too few rounds to report a difference."""
RESOLUTION = 0.01
"""The smallest difference that counts. Two copies of the same program can differ by this much, because the linker and
the allocator place them differently."""
_WIDE = 1.5
"""If the ends of an interval differ by more than this factor, "no difference" and "much faster" are both possible."""
_NARROW = 1.06
"""Rounds continue until the ends of the interval differ by less than this factor, or up to `MOST_ROUNDS`."""
# Three parts show a trend, and each still has enough rounds for a median.
_THIRDS = 3
ROUNDS = 15
"""The number of rounds if the times are steady."""
MOST_ROUNDS = 45
"""The most rounds if the times are not steady."""


class RatioVerdict(StrEnum):
    """The result of a comparison."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no_difference"
    UNDECIDED = "undecided"


class Interval(Struct, frozen=True):
    """The median of some values, and its confidence interval."""

    JSON: ClassVar[str] = "median low high rounds"
    median: float
    low: float
    high: float
    rounds: int
    confidence: float
    """The probability that the interval contains the true median, if rounds are independent."""

    @property
    def spread(self) -> float:
        """Half the width of the interval, relative to the median."""
        if self.median:
            return (self.high - self.low) / 2 / self.median
        return 0.0

    @property
    def is_sure(self) -> bool:
        """Whether there are enough rounds for a meaningful interval."""
        return self.confidence >= LEAST_CONFIDENCE


def interval_of(values: Sequence[float]) -> Interval:
    """Return the median of the values and its interval.

    Raises:
        ValueError: there are no values.
    """
    ordered = sorted(values)
    cut = _cut(len(ordered))
    return Interval(
        statistics.median(ordered), ordered[cut], ordered[-1 - cut], len(ordered), _confidence(len(ordered), cut)
    )


@lru_cache
def _cut(rounds: int) -> int:
    """Return how many values to cut off at each end to reach the intended confidence."""
    return max((cut for cut in range((rounds + 1) // 2) if _confidence(rounds, cut) >= CONFIDENCE), default=0)


def _confidence(rounds: int, cut: int) -> float:
    outside = sum(math.comb(rounds, below) for below in range(cut + 1))
    return max(1.0 - 2.0 * outside / float(2**rounds), 0.0)


class SpeedComparison(Struct, frozen=True):
    """How many times faster `after` is than `before`; below 1, it is slower."""

    JSON: ClassVar[str] = (
        "median=ratio.median low=ratio.low high=ratio.high rounds=ratio.rounds confidence=ratio.confidence verdict"
    )
    ratio: Interval
    verdict: RatioVerdict


def compared(before: Sequence[float], after: Sequence[float]) -> SpeedComparison:
    """Compare the times of two sides, round by round; a ratio above 1 means that `after` is faster.

    Raises:
        ValueError: there are no rounds, or the sides have different numbers of them.
    """
    ratios = [first / second for first, second in zip(before, after, strict=True)]
    ratio = interval_of(ratios)
    verdict = verdict_of(ratio)
    if verdict in (RatioVerdict.FASTER, RatioVerdict.SLOWER) and not _lasts(ratios):
        verdict = RatioVerdict.UNDECIDED
    return SpeedComparison(ratio, verdict)


def _lasts(ratios: Sequence[float]) -> bool:
    """Whether each third of the rounds shows the difference. The interval assumes independent rounds. A disturbance of
    the machine makes successive rounds similar for a while, but a real difference shows in all thirds.
    """
    third = len(ratios) // _THIRDS
    medians = [statistics.median(ratios[part * third : (part + 1) * third]) for part in range(_THIRDS)]
    # In the same direction: a machine that is slow at first and fast later shows both.
    return all(each > 1 + RESOLUTION for each in medians) or all(each < 1 / (1 + RESOLUTION) for each in medians)


def is_enough(before: Sequence[float], after: Sequence[float]) -> bool:
    """Whether a measurement may end, because the interval is narrow enough.

    The position of the interval must not decide: a measurement that stops as soon as a difference shows finds one even
    in noise.
    """
    if len(before) < ROUNDS:
        return False
    ratio = compared(before, after).ratio
    return len(before) >= MOST_ROUNDS or ratio.high <= ratio.low * _NARROW


def verdict_of(ratio: Interval) -> RatioVerdict:
    """Return the verdict on a ratio: no difference if the interval contains, or nearly contains, 1."""
    if not ratio.is_sure:
        return RatioVerdict.UNDECIDED
    if ratio.low > 1 + RESOLUTION:
        return RatioVerdict.FASTER
    if ratio.high < 1 / (1 + RESOLUTION):
        return RatioVerdict.SLOWER
    if ratio.high > ratio.low * _WIDE:
        return RatioVerdict.UNDECIDED
    return RatioVerdict.NO_DIFFERENCE


def quotient(first: Interval, second: Interval, noise: float = 1.0) -> Interval:
    """Divide two ratios from different processes; the interval contains every quotient of their values.

    `noise` is the factor by which the same work differs between the processes; it widens the interval.
    """
    return Interval(
        first.median / second.median,
        first.low / second.high / noise,
        first.high / second.low * noise,
        min(first.rounds, second.rounds),
        min(first.confidence, second.confidence),
    )


def has_trend(values: Sequence[float], factor: float = 1.2) -> bool:
    """Whether the values grow or shrink by more than the factor from the first to the last third, without overlap."""
    third = len(values) // 3
    if third < 2:
        return False
    first, last = values[:third], values[-third:]
    grows = min(last) > max(first) and statistics.median(last) > factor * statistics.median(first)
    shrinks = max(last) < min(first) and statistics.median(first) > factor * statistics.median(last)
    return grows or shrinks
