"""Copies for eager calls: what is said where the model cannot be copied, at once or later."""

from typing import Any

import pytest

from ctrace.inspector.capture.eager import Eager


class _Told:
    """Takes down problems, as a recorder does."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def problem(self, what: str) -> None:
        self.problems.append(what)


class _Stubborn:
    """Can be copied so many times, and then no more."""

    def __init__(self, left: list[int]) -> None:
        self.left = left

    def __deepcopy__(self, _memo: Any) -> "_Stubborn":
        if not self.left[0]:
            raise TypeError("no more")
        self.left[0] -= 1
        return _Stubborn(self.left)


@pytest.mark.parametrize(("times", "first"), [(0, "coverage was not measured"), (1, "coverage of later calls was not")])
def test_what_was_measured_before_is_not_denied(times: int, first: str) -> None:
    told = _Told()
    eager = Eager(_Stubborn([times]), told, train=False)  # type: ignore[arg-type]
    made = [eager._copy() for _ in range(times + 2)]
    assert [each is not None for each in made] == [True] * times + [False, False]
    assert len(told.problems) == 1
    assert told.problems[0].startswith(first)
