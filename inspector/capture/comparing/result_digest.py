"""Sum up what an eager call returned in a few numbers, so that a trial can show that its edit returns the same."""

from collections.abc import Iterator
from typing import Any

from ctrace.inspector.capture.calls.calling import CallResults
from ctrace.inspector.capture.comparing.eager import EagerRun
from ctrace.inspector.capture.comparing.snapshots import ContainerParts
from ctrace.inspector.facts.scenario_facts import EagerResult, ResultPart


def result_of(call: int, run: EagerRun) -> EagerResult:
    """Return the numbers of a call's outputs, inputs and gradients; buffers are left out, as an edit may add one."""
    return EagerResult(call, bool(run.traces.drawn), tuple(_parts(run.results)))


def _parts(results: CallResults) -> Iterator[ResultPart]:
    for value in _leaves(results.outputs):
        yield _part("output", [value])
    yield _part("inputs", list(_leaves(ContainerParts("list", dict(enumerate(results.inputs))))))
    # All gradients are one part: a large model has thousands, and what matters is whether they are the same.
    yield _part("gradients", list(results.gradients))


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the tensors and numbers of a value that was taken apart, in order."""
    import torch

    if isinstance(value, ContainerParts):
        for item in value.items.values():
            yield from _leaves(item)
    elif isinstance(value, torch.Tensor | int | float):
        yield value


def _part(where: str, values: list[Any]) -> ResultPart:
    import torch

    numbers = [0.0, 0.0, 0.0]
    for place, value in enumerate(values, 1):
        if value is None:
            continue
        found = _numbers(value)
        if found is None:
            return ResultPart(where)
        # Weighted by their places, so that two that changed places are not the same.
        numbers = [total + place * one for total, one in zip(numbers, found, strict=True)]
    is_number = len(values) == 1 and not isinstance(values[0], torch.Tensor)
    return ResultPart(where, tuple(f"{each:.9g}" for each in numbers), is_number)


def _numbers(value: Any) -> tuple[float, float, float] | None:
    """Return sum, norm and the sum of every other element; None: they cannot be computed."""
    import torch

    if not isinstance(value, torch.Tensor):
        return float(value), abs(float(value)), float(value)
    is_plain = value.layout is torch.strided and not (value.is_nested or value.is_quantized or value.is_meta)
    if not is_plain or type(value) not in (torch.Tensor, torch.nn.Parameter):
        return None
    with torch.no_grad():
        real = torch.view_as_real(value.resolve_conj()) if value.is_complex() else value
        # Eight bits have no sums of their own, and integers no norm.
        exact = real if real.is_floating_point() and real.element_size() > 1 else real.to(torch.float64)
        flat = exact.detach().reshape(-1)
        total, half = (part.sum(dtype=torch.float64) for part in (flat, flat[::2]))
        return float(total), float(torch.linalg.vector_norm(flat, dtype=torch.float64)), float(half)
