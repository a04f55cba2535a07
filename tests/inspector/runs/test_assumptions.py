"""The form of --assume."""

import pytest

from ctrace.inspector.errors import TargetError
from ctrace.inspector.runs.options import Assumption, parse_assumption


def test_a_place_with_values_for_each_call() -> None:
    assert parse_assumption("model.py:31:12=True,False") == Assumption("model.py", 31, 12, (True, False))
    assert parse_assumption("a/b.py:3=5, -2, 1e3") == Assumption("a/b.py", 3, None, (5, -2, 1000.0))


@pytest.mark.parametrize(
    "text", ["", "model.py", "model.py:3", "model.py=1", "model.py:x=1", "m.py:1=", "m.py:1=maybe", "m.py:1=nan"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(TargetError, match="--assume"):
        parse_assumption(text)


def test_the_path_may_leave_out_folders_and_the_column() -> None:
    assumed = parse_assumption("b.py:3=1")
    assert assumed.is_at("/a/b.py", 3, 7)
    assert not assumed.is_at("/a/bb.py", 3, 7)
    assert not assumed.is_at("/a/b.py", 4, 7)
    assert not parse_assumption("b.py:3:8=1").is_at("/a/b.py", 3, 7)
    assert parse_assumption("b.py:3:8=1").is_at("/a/b.py", 3, None)
