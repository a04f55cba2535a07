"""The numbers of an eager call's results: equal results have equal ones, others do not."""

from typing import Any

import pytest

from ctrace.inspector.capture.calls.calling import CallResults
from ctrace.inspector.capture.comparing.eager import EagerRun, Traces
from ctrace.inspector.capture.comparing.snapshots import taken
from ctrace.inspector.capture.scenario_runs import result_of
from ctrace.inspector.facts.scenario_facts import EagerResult


def of(outputs: Any, *gradients: Any) -> EagerResult:
    return result_of(0, EagerRun(taken(CallResults(outputs, [], list(gradients))), None, Traces(), 0.0))


def test_other_values_other_places_and_other_gradients_have_other_numbers() -> None:
    import torch

    x = torch.arange(6.0)
    first = of((x, [x * 2]), x, None)
    assert first == of((x.clone(), [x * 2]), x, None)
    assert [each.where for each in first.parts] == ["output", "output", "inputs", "gradients"]
    others = [of((x.flip(0), [x * 2]), x, None), of((x, [x * 3]), x, None), of((x, [x * 2]), None, x)]
    assert all(each != first for each in others)


@pytest.mark.parametrize("dtype", ["int64", "bool", "bfloat16", "complex64", "float8_e4m3fn"])
def test_every_dtype_has_numbers(dtype: str) -> None:
    import torch

    (output, *_) = of(torch.ones(3, 4).to(getattr(torch, dtype)).t()).parts
    assert (output.numbers[0], output.is_number) == ("12", False)


def test_what_cannot_be_summed_up_has_none() -> None:
    import torch

    assert of(torch.eye(2).to_sparse()).parts[0].numbers == ()
    assert of(torch.tensor([float("inf")])).parts[0].numbers == ("inf", "inf", "inf")
    assert [(each.numbers, each.is_number) for each in of((2.5, "text")).parts[:1]] == [(("2.5", "2.5", "2.5"), True)]
