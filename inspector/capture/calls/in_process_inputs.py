"""Turn the inputs of an in-process capture into scenarios: one call, or several with different inputs."""

import functools
from collections.abc import Mapping
from typing import Any

from ctrace.inspector.capture.calls.ways import Call, Way
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.scenario_facts import ScenarioKind


def ways_of(inputs: Any, kwargs: Mapping[str, Any]) -> dict[str, Way]:
    """Make scenarios from a tuple of arguments, one tensor, a dict of keyword arguments, or a list of these.

    Raises:
        TargetError: the inputs have another type, or the list is empty.
    """
    several = inputs if isinstance(inputs, list) else [inputs]
    if not several:
        raise TargetError(
            "the list of inputs is empty", "pass a tuple of arguments, or a list with one tuple for each call"
        )
    calls = [_call(each, kwargs) for each in several]
    kinds = [ScenarioKind.BASE] + [ScenarioKind.GIVEN] * len(calls)
    names = ["base"] + [f"inputs {number}" for number in range(2, len(calls) + 1)]
    return {
        name: Way(functools.partial(_copied_call, call), kind)
        for name, call, kind in zip(names, calls, kinds, strict=False)
    }


def _copied_call(call: Call) -> Call:
    return Call(call.args, dict(call.kwargs))


def _call(inputs: Any, kwargs: Mapping[str, Any]) -> Call:
    import torch

    if isinstance(inputs, torch.Tensor):
        return Call((inputs,), {**kwargs})
    if isinstance(inputs, tuple):
        return Call(inputs, {**kwargs})
    if isinstance(inputs, Mapping):
        return Call((), {**inputs, **kwargs})
    todo = "pass a tuple of arguments, one tensor, a dict of keyword arguments, or a list of these for several calls"
    raise TargetError(f"inputs have type {type(inputs).__name__}", todo)
