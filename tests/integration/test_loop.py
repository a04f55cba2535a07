"""The loop that `ctrace time` times."""

import weakref
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ctrace.inspector.capture.calls.stopwatch import TimedLoop, nothing  # noqa: E402
from ctrace.inspector.capture.calls.ways import Call  # noqa: E402


def test_the_last_result_is_alive_in_the_next_call_and_no_other():
    loop = TimedLoop()
    made: list[Any] = []
    alive: list[list[bool]] = []

    def model(x: Any) -> Any:
        alive.append([each() is not None for each in made])
        result = x + 1
        made.append(weakref.ref(result))
        return result

    calls = [Call((torch.ones(2),), {})]
    assert loop(model, calls * 3, nothing) > 0
    loop(model, calls, nothing)
    assert alive == [[], [True], [False, True], [False, False, True]]
