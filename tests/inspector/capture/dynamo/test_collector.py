"""Full collections are rarer while torch compiles, and as before afterwards."""

import gc

import pytest

from ctrace.inspector.capture.dynamo import collector
from ctrace.inspector.capture.dynamo.collector import _FULL, _GROWN, _Threshold


@pytest.fixture(autouse=True)
def default():
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_the_threshold_is_raised_and_restored():
    threshold = _Threshold()
    threshold.raise_()
    assert gc.get_threshold()[2] == _FULL
    threshold.restore()
    assert gc.get_threshold()[2] == 10
    threshold.restore()
    assert gc.get_threshold()[2] == 10


@pytest.mark.parametrize("chosen", [0, 500])
def test_what_the_program_has_set_stays(chosen: int):
    gc.set_threshold(700, 10, chosen)
    threshold = _Threshold()
    threshold.raise_()
    assert gc.get_threshold()[2] == chosen
    threshold.restore()
    assert gc.get_threshold()[2] == chosen


def test_what_the_program_sets_during_a_compile_stays():
    threshold = _Threshold()
    threshold.raise_()
    gc.set_threshold(1000, 5, 5)
    threshold.restore()
    assert gc.get_threshold() == (1000, 5, 5)


@pytest.mark.parametrize(("grown", "is_on", "collects"), [(_GROWN, True, 1), (_GROWN - 1, True, 0), (_GROWN, False, 0)])
def test_a_compile_that_took_much_memory_is_followed_by_a_collection(
    grown: int, is_on: bool, collects: int, monkeypatch: pytest.MonkeyPatch
):
    now, collected = 1 << 30, []
    monkeypatch.setattr(collector, "_memory", lambda: now)
    monkeypatch.setattr(gc, "isenabled", lambda: is_on)
    monkeypatch.setattr(gc, "collect", lambda: collected.append(now))
    threshold = _Threshold()
    for _ in range(2):  # the second compile takes no more memory
        threshold.raise_()
        now = (1 << 30) + grown
        threshold.restore()
    assert len(collected) == collects


def test_memory_is_that_of_this_process():
    assert collector._memory() == 0 or collector._memory() > 1 << 20
