"""Recorded logs of every kind of break, skip and recompilation."""

import pytest

from tests.support.helpers import recorded
from tests.support.shapes import RECOMPILES, SHAPES, cached_of, shape_of


@pytest.mark.parametrize("name", SHAPES)
def test_recorded(name: str) -> None:
    session = recorded(name)
    assert shape_of(session) == SHAPES[name]
    assert session.problems == ()
    assert session.unknown == {}


@pytest.mark.parametrize("name", RECOMPILES)
def test_recorded_again(name: str) -> None:
    assert cached_of(recorded(name)) == RECOMPILES[name]
