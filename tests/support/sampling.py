"""What `make check` tries of many: a few parameters of a test, and a few examples of a property."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

_ONE_IN = 6


def sampled(values: Iterable[Any], one_in: int = _ONE_IN) -> list[Any]:
    """Return parameters for each value: `make test` tries all, `make check` only the first of each few."""
    return [_parameter(value, kept=index % one_in == 0) for index, value in enumerate(values)]


def _parameter(value: Any, kept: bool) -> Any:
    marks = () if kept else pytest.mark.thorough
    return pytest.param(*value, marks=marks) if isinstance(value, tuple) else pytest.param(value, marks=marks)


def examples(number: int) -> int:
    """Return how many examples a property gets: this number, or its share in a profile of hypothesis with fewer."""
    return max(number * settings().max_examples // 100, 1)
