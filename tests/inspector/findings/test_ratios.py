"""Simulated noise: how often equal sides are reported as different, and how often real differences are found."""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import repeat

import pytest

from ctrace.inspector.findings.ratios import (
    RatioVerdict,
    compared,
    has_trend,
    interval_of,
    is_enough,
    quotient,
    verdict_of,
)

Noise = Callable[[random.Random], Iterator[tuple[float, float]]]
ROUNDS = 15
TRIALS = 400


def steady(chance: random.Random) -> Iterator[tuple[float, float]]:
    while True:
        yield 1 + chance.gauss(0, 0.02), 1 + chance.gauss(0, 0.02)


def loud(chance: random.Random) -> Iterator[tuple[float, float]]:
    while True:
        yield math.exp(chance.gauss(0, 0.15)), math.exp(chance.gauss(0, 0.15))


def spikes(chance: random.Random) -> Iterator[tuple[float, float]]:
    """Another process takes the core during one call of ten."""

    def one() -> float:
        return (1 + chance.gauss(0, 0.01)) * (3 if chance.random() < 0.1 else 1)

    while True:
        yield one(), one()


def drift(chance: random.Random) -> Iterator[tuple[float, float]]:
    """The clock wanders by a factor, slower than a round."""
    clock = 1.0
    while True:
        clock *= math.exp(chance.gauss(0, 0.1))
        yield clock * (1 + chance.gauss(0, 0.02)), clock * (1 + chance.gauss(0, 0.02))


def two_clocks(chance: random.Random) -> Iterator[tuple[float, float]]:
    """The clock has two speeds, and stays at each for a few rounds; sometimes it changes within a round."""
    speed = 1.0
    while True:
        first = speed
        if chance.random() < 0.2:
            speed = 2.5 - speed
        yield first * (1 + chance.gauss(0, 0.01)), speed * (1 + chance.gauss(0, 0.01))


def sticky(chance: random.Random) -> Iterator[tuple[float, float]]:
    """Each round's noise includes half of the last round's, so rounds are not independent."""
    a = b = 0.0
    while True:
        a, b = 0.5 * a + chance.gauss(0, 0.03), 0.5 * b + chance.gauss(0, 0.03)
        yield math.exp(a), math.exp(b)


def bursts(chance: random.Random) -> Iterator[tuple[float, float]]:
    """Something slows one side down for some rounds, and then the other."""
    while True:
        one, other = (1.3, 1.0) if chance.random() < 0.5 else (1.0, 1.3)
        for _ in range(chance.randrange(2, 6)):
            yield one * (1 + chance.gauss(0, 0.02)), other * (1 + chance.gauss(0, 0.02))
        for _ in range(chance.randrange(2, 6)):
            yield 1 + chance.gauss(0, 0.02), 1 + chance.gauss(0, 0.02)


NOISES = (bursts, steady, loud, spikes, drift, two_clocks, sticky)


def verdicts(noise: Noise, factor: float = 1.0, rounds: int | None = None) -> Counter[RatioVerdict]:
    """Repeat a measurement, each until there are enough rounds or for a fixed number of rounds."""
    chance = random.Random(7)
    found: Counter[RatioVerdict] = Counter()
    for _ in range(TRIALS):
        source = noise(chance)
        before: list[float] = []
        after: list[float] = []
        while len(before) < rounds if rounds is not None else not is_enough(before, after):
            one, other = next(source)
            before.append(one * factor)
            after.append(other)
        found[compared(before, after).verdict] += 1
    return found


@pytest.mark.parametrize("noise", NOISES)
def test_equal_sides_are_not_called_different(noise: Noise):
    found = verdicts(noise)
    assert (found[RatioVerdict.FASTER] + found[RatioVerdict.SLOWER]) / TRIALS <= 0.03, found


@pytest.mark.parametrize("noise", [steady, spikes, drift, two_clocks, sticky])
def test_equal_sides_are_called_equal(noise: Noise):
    assert verdicts(noise)[RatioVerdict.NO_DIFFERENCE] / TRIALS >= 0.97


def test_an_interval_holds_the_true_ratio_as_often_as_it_says():
    chance, held = random.Random(3), 0
    for _ in range(5 * TRIALS):
        source = spikes(chance)
        pairs = [next(source) for _ in range(ROUNDS)]
        ratio = compared([1.3 * a for a, _ in pairs], [b for _, b in pairs]).ratio
        held += ratio.low <= 1.3 <= ratio.high
    assert held / (5 * TRIALS) >= ratio.confidence - 0.01


@pytest.mark.parametrize("noise", [steady, spikes, drift, sticky])
def test_a_difference_of_a_fifth_is_found(noise: Noise):
    found = verdicts(noise, 1.2)
    assert found[RatioVerdict.FASTER] / TRIALS >= 0.95, found
    assert verdicts(noise, 1 / 1.2)[RatioVerdict.SLOWER] / TRIALS >= 0.95


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_few_rounds_decide_nothing(rounds: int):
    assert set(verdicts(steady, 3.0, rounds)) == {RatioVerdict.UNDECIDED}


def test_six_rounds_decide():
    assert set(verdicts(steady, 3.0, 6)) == {RatioVerdict.FASTER}


def test_less_than_the_resolution_is_no_difference():
    assert set(verdicts(lambda _chance: repeat((1.0, 1.0)), 1.005)) == {RatioVerdict.NO_DIFFERENCE}


def test_very_loud_noise_is_undecided_rather_than_equal():
    def very_loud(chance: random.Random) -> Iterator[tuple[float, float]]:
        while True:
            yield math.exp(chance.gauss(0, 1)), math.exp(chance.gauss(0, 1))

    found = verdicts(very_loud)
    assert found[RatioVerdict.UNDECIDED] > 0.9 * TRIALS
    assert (found[RatioVerdict.FASTER] + found[RatioVerdict.SLOWER]) / TRIALS <= 0.03


def test_the_interval_is_made_of_measured_values():
    found = interval_of([5.0, 1.0, 4.0, 2.0, 3.0, 9.0, 7.0, 8.0, 6.0])
    assert (found.median, found.low, found.high, found.rounds) == (5.0, 1.0, 9.0, 9)
    assert found.confidence == pytest.approx(1 - 2 / 512)


def test_a_single_value_has_no_confidence():
    found = interval_of([2.0])
    assert (found.low, found.high, found.confidence) == (2.0, 2.0, 0.0)
    assert verdict_of(found) is RatioVerdict.UNDECIDED


def test_sides_of_different_length_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        compared([1.0, 2.0], [1.0])


def test_a_quotient_holds_every_quotient_and_the_noise():
    one = interval_of([2.0, 2.1, 1.9] * 5)
    two = interval_of([1.0, 1.1, 0.9] * 5)
    plain, noisy = quotient(one, two), quotient(one, two, 1.1)
    assert plain.median == pytest.approx(2.0)
    assert plain.low <= one.low / two.high
    assert noisy.low < plain.low < plain.high < noisy.high


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([1.0] * 15, False),
        ([1 + 0.1 * step for step in range(15)], True),
        ([3 - 0.1 * step for step in range(15)], True),
        ([1.0, 9.0, 1.0] * 5, False),
        ([1.0, 2.0], False),
    ],
)
def test_a_trend_is_a_change_from_the_first_rounds_to_the_last(values: list[float], found: bool):
    assert has_trend(values) is found
