"""Full collections are rarer while torch compiles, and as before afterwards."""

import gc

import pytest

from ctrace.inspector.capture.dynamo.collector import _FULL, _Threshold


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
