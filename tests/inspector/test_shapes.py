"""Every shape of a break and a skip, on recorded logs."""

import pytest

from tests.helpers import recorded
from tests.shapes import SHAPES, shape_of


@pytest.mark.parametrize("name", SHAPES)
def test_recorded(name: str) -> None:
    session = recorded(name)
    assert shape_of(session) == SHAPES[name]
    assert session.problems == ()
    assert session.unknown == {}
