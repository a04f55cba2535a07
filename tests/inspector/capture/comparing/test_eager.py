"""Copies for eager calls: the problem recorded if the model cannot be copied, at first or later."""

import gc
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from ctrace.inspector.capture.calls.ways import Call, Way
from ctrace.inspector.capture.comparing import eager as module
from ctrace.inspector.capture.comparing.arithmetic import WatchedArithmetic
from ctrace.inspector.capture.comparing.eager import Eager, EagerError
from ctrace.inspector.capture.comparing.float64 import Float64
from ctrace.inspector.capture.comparing.world import look
from ctrace.inspector.facts.scenario_facts import ScenarioKind


class _Problems:
    """Collects problems as a recorder does."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def problem(self, what: str) -> None:
        self.problems.append(what)

    def watching(self, _what: str) -> AbstractContextManager[None]:
        return nullcontext()


class _Stubborn:
    """Can be copied only a limited number of times."""

    def __init__(self, left: list[int]) -> None:
        self.left = left

    def __deepcopy__(self, _memo: Any) -> "_Stubborn":
        if not self.left[0]:
            raise TypeError("no more")
        self.left[0] -= 1
        return _Stubborn(self.left)


@pytest.mark.parametrize(("times", "first"), [(0, "coverage was not measured"), (1, "coverage of later calls was not")])
def test_what_was_measured_before_is_not_denied(times: int, first: str) -> None:
    found = _Problems()
    eager = Eager(_Stubborn([times]), found, train=False)  # type: ignore[arg-type]
    made = [eager._copy() for _ in range(times + 2)]
    assert [each is not None for each in made] == [True] * times + [False, False]
    assert len(found.problems) == 1
    assert found.problems[0].startswith(first)


def test_other_arithmetic_that_the_model_cannot_be_computed_with_is_no_problem_of_the_model() -> None:
    pytest.importorskip("torch")
    import torch

    class OnlyFloat32(torch.nn.Linear):
        def forward(self, x: Any) -> Any:
            if self.weight.dtype != torch.float32:
                raise RuntimeError("expected Float32, got Double")
            return super().forward(x)

    found, model = _Problems(), OnlyFloat32(2, 2)
    eager = Eager(model, found, train=False)  # type: ignore[arg-type]
    call = Call((torch.rand(1, 2),), {})
    way = Way(lambda: call, ScenarioKind.BASE)
    with pytest.raises(EagerError):
        eager.run(call, way, look(model), arithmetic=Float64())
    assert eager.run(call, way, look(model), arithmetic=WatchedArithmetic()) is not None
    assert found.problems == []


@pytest.mark.parametrize(
    ("grown", "is_on", "collects"), [(32 << 20, True, 1), (1 << 20, True, 0), (32 << 20, False, 0)]
)
def test_what_a_large_eager_call_leaves_behind_is_collected(
    grown: int, is_on: bool, collects: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    resident, collected = iter([1 << 30, (1 << 30) + grown]), []
    monkeypatch.setattr(module, "_resident", lambda: next(resident))
    monkeypatch.setattr(gc, "isenabled", lambda: is_on)
    monkeypatch.setattr(gc, "collect", lambda: collected.append(grown))
    eager = Eager(_Stubborn([0]), _Problems(), train=False)  # type: ignore[arg-type]
    assert eager.run(None, None, None) is None  # type: ignore[arg-type]
    assert len(collected) == collects
