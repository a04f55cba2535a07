"""Find the largest size below a limit in few runs."""

from collections.abc import Callable

import pytest
import torch

from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.memory.child.memory_task import SizeSearch, size_of, sized


@pytest.mark.parametrize(
    "needs",
    [
        lambda size: 1_000 + 37 * size,
        lambda size: 5 * size * size,
        lambda size: 1_000 + 512 * -(-size // 64),
        lambda size: 90_000,
        lambda size: 10_000 * size,
    ],
)
@pytest.mark.parametrize("first", [1, 8, 4_096])
def test_the_result_fits_and_the_next_does_not(needs: Callable[[int], int], first: int) -> None:
    runs: list[int] = []

    def run(size: int) -> tuple[int, None]:
        runs.append(size)
        return needs(size), None

    search = SizeSearch(run, 100_000)
    fits = search.largest(first)
    if fits is None:
        assert needs(1 << 24) <= 100_000
        return
    assert not fits or needs(fits) <= 100_000
    assert needs(fits + 1) > 100_000
    assert len(runs) <= 30
    assert len(set(runs)) == len(runs)
    assert search.peak(fits) == (needs(fits) if fits else None)
    assert search.over == needs(fits + 1)


def test_a_linear_need_takes_few_runs() -> None:
    runs: list[int] = []

    def run(size: int) -> tuple[int, None]:
        runs.append(size)
        return 10_000 + 37 * size, None

    assert SizeSearch(run, 10**8).largest(8) == (10**8 - 10_000) // 37
    assert len(runs) <= 6


def test_an_input_gets_another_size() -> None:
    call = Call((torch.zeros(4, 6), torch.zeros(4), torch.zeros(3, 6)), {})
    batch = sized(call, "batch", 9)
    assert [tuple(each.shape) for each in batch.args] == [(9, 6), (9,), (3, 6)]
    wide = sized(call, "0.1", 2)
    assert [tuple(each.shape) for each in wide.args] == [(4, 2), (4,), (3, 2)]
    assert size_of(call, "0.1") == 6


@pytest.mark.parametrize("what", ["3.0", "1.1"])
def test_a_dimension_that_is_not_there_is_named(what: str) -> None:
    with pytest.raises(TargetError, match="no input has such a dimension"):
        size_of(Call((torch.zeros(4, 6), torch.zeros(4)), {}), what)


def test_the_largest_size_is_tried_where_small_ones_promise_more():
    """The peak of small sizes is in another part of the step, and grows more slowly."""
    search = SizeSearch(lambda size: (max(size + 1_000_000, 6 * size), None), 60_000_000)
    assert search.largest(32) == 10_000_000
