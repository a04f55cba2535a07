"""Inputs of another form on the side of a branch that a scenario misses, and what is cast alone, tell two programs apart."""

from collections.abc import Callable
from types import MethodType
from typing import Any

import pytest
import torch
from torch import nn

from ctrace.inspector.capture.calls.model_files import Loaded
from ctrace.inspector.capture.calls.ways import Call, Way
from ctrace.inspector.facts.trial import BUFFERS_IN_FLOAT64, Condition, Mined, Observed, ProofRequest
from ctrace.inspector.features.fix.child.observation import ModelObserver
from ctrace.inspector.features.fix.child.observers import observers
from ctrace.inspector.features.fix.repairs.comparing import differences
from ctrace.inspector.features.fix.repairs.proving import _is_unusual

Forward = Callable[..., Any]
X = torch.tensor([[1.0, 2.0, -1.0], [0.5, -0.25, 0.125]])
IDS = torch.tensor([[3, 8, 1], [9, 2, 7]])
FLAGS = torch.tensor([True, False])


class Parts(nn.Module):
    """Layers, buffers and a table of three positions."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.router = nn.Linear(3, 1)
        self.scale = nn.Parameter(torch.tensor(0.5))
        self.register_buffer("mean", torch.tensor([0.25, 0.5, 0.75]))


def observed(
    forward: Forward, args: tuple[Any, ...], probes: tuple[str, ...] | None, *conditions: Condition
) -> Observed:
    torch.manual_seed(0)
    net = type("Net", (Parts,), {"forward": forward})()
    ways = {"base": Way(lambda: Call(tuple(each.clone() for each in args), {}))}
    request = ProofRequest("", conditions=conditions, probes=probes, seconds=600.0, mined=Mined())
    observer = ModelObserver(Loaded(net, ways), request, train=False)
    entries = tuple(each.entry for each in observer.observe())
    return Observed(entries, observer.watch.result(), observer.probed)


def batched(self: Any, x: Any) -> Any:
    return x.squeeze(0) - self.mean if x.abs().max() > 0.1 else x


def batched_whole(self: Any, x: Any) -> Any:
    return torch.where(x.abs().max() > 0.1, x.squeeze(0) - self.mean, x)


def ordered(self: Any, x: Any, flags: Any) -> Any:
    return x + self.mean if flags.any() else x * 2


def ordered_whole(self: Any, x: Any, flags: Any) -> Any:
    return torch.where(flags.any(), x + self.mean, x * 2)


def smallest(self: Any, x: Any, flags: Any) -> Any:
    return x - x.min() if flags.any() else x * 2


def smallest_whole(self: Any, x: Any, flags: Any) -> Any:
    return torch.where(flags.any(), x - x.min(), x * 2)


def counted(self: Any, ids: Any) -> Any:
    return ids + torch.tensor([1, 2, 3]) if ids.max() > 5 else ids * 2


def counted_whole(self: Any, ids: Any) -> Any:
    return torch.where(ids.max() > 5, ids + torch.tensor([1, 2, 3]), ids * 2)


def centered(self: Any, x: Any, mean: Any) -> Any:
    return x - mean if x.abs().max() > 0.1 else x * 2


def centered_whole(self: Any, x: Any, mean: Any) -> Any:
    return torch.where(x.abs().max() > 0.1, x - mean, x * 2)


def summed(self: Any, x: Any, weight: Any) -> Any:
    return weight * 0.5 if x.abs().max() > 0.1 else weight.clamp(min=1)


def summed_whole(self: Any, x: Any, weight: Any) -> Any:
    return torch.where(x.abs().max() > 0.1, weight * 0.5, weight.clamp(min=1))


def gated(self: Any, x: Any, other: Any, flags: Any) -> Any:
    return x + other * self.scale if flags.any() else x * 2 + self.scale


def gated_whole(self: Any, x: Any, other: Any, flags: Any) -> Any:
    return torch.where(flags.any(), x + other * self.scale, x * 2 + self.scale)


def routed(self: Any, x: Any) -> Any:
    gate = self.router(x.to(self.router.weight.dtype))
    return x + gate if x.abs().max() > 0.1 else x - gate.max()


def routed_whole(self: Any, x: Any) -> Any:
    gate = self.router(x.to(self.router.weight.dtype))
    return torch.where(x.abs().max() > 0.1, x + gate, x - gate.max())


def offset(self: Any, x: Any) -> Any:
    return x - self.mean if x.abs().max() > 0.1 else x * 2


def offset_whole(self: Any, x: Any) -> Any:
    return torch.where(x.abs().max() > 0.1, x - self.mean, x * 2)


def scaled(self: Any, x: Any) -> Any:
    return x.mean(1).squeeze() * self.scale.item()


def scaled_whole(self: Any, x: Any) -> Any:
    score = x.mean(1).squeeze()
    return score * self.scale.detach().to(torch.promote_types(score.dtype, torch.float32))


@pytest.mark.parametrize(
    ("probe", "before", "after", "args", "is_asked"),
    [
        ("batch 1 on zeros", batched, batched_whole, (X,), False),
        ("empty batch on all false", smallest, smallest_whole, (X, FLAGS), True),
        ("dimension 1 larger on all false", ordered, ordered_whole, (X, FLAGS), True),
        ("integers as int32 on integers 0", counted, counted_whole, (IDS,), True),
        ("floats as uint8 on zeros", offset, offset_whole, (X,), True),
        ("tensor 2 alone in float64 on zeros", centered, centered_whole, (X, X[0]), True),
        ("tensor 2 alone as integers on zeros", summed, summed_whole, (X, X[0]), True),
        ("tensor 2 alone NaN on all false", gated, gated_whole, (X, X, FLAGS), True),
        ("tensor 2 alone None on all false", gated, gated_whole, (X, X, FLAGS), True),
        (f"{BUFFERS_IN_FLOAT64} on zeros", offset, offset_whole, (X,), True),
        ("all but router in bfloat16 on zeros", routed, routed_whole, (X,), False),
        ("model in bfloat16 on batch 1", scaled, scaled_whole, (X,), False),
    ],
)
def test_only_the_other_side_or_what_is_alone_shows_it(
    probe: str, before: Forward, after: Forward, args: tuple[Any, ...], is_asked: bool
):
    both = [observed(each, args, (f"base, {probe}",)) for each in (before, after)]
    assert both[0].probes == (f"base, {probe}",)
    found = differences(*both)
    assert {each.entry for each in found} == {f"base, {probe}"}
    assert _is_unusual(found[0].entry) is is_asked


def test_forms_are_repeated_on_the_side_that_the_scenario_misses():
    line = offset.__code__.co_firstlineno + 1
    found = observed(offset, (X,), None, Condition(__file__, line, "x.abs().max() > 0.1")).probes
    other = {each.partition(" on ")[0].removeprefix("base, ") for each in found if " on zeros" in each}
    assert other >= {"batch 1", "dimension 1 larger", "floats as uint8", "empty batch", BUFFERS_IN_FLOAT64, "float16"}
    assert "one dimension less" in other
    assert "numbers as tensors" not in other, "no such form, so none with other values"
    assert "base, tensor 1 alone sparse" in found
    assert "tensor 1 alone sparse" not in other, "torch.where refuses it, whatever the model is for"


NET = nn.Linear(3, 3)


def of_file(x: Any) -> Any:
    return NET(x)


def closed_over(net: Any) -> Any:
    def call(x: Any, *, by: float = 2.0) -> Any:
        return net(x) * by

    return call


class Trainer:
    """Holds a network beside other things."""

    def __init__(self) -> None:
        self.net = nn.Linear(3, 3)

    def step(self, x: Any) -> Any:
        return self.net(x)


@pytest.mark.parametrize("subject", [of_file, closed_over(NET), Trainer().step], ids=["file", "closure", "method"])
def test_modules_that_a_function_holds_are_cast_in_a_copy(subject: Any):
    found = observers(subject, Mined())
    cast = found["modules in bfloat16"]
    call = cast.change(Call((X,), {}))
    made = cast.prepare(subject)
    assert made(*call.args).dtype is torch.bfloat16
    other = Trainer().step if isinstance(subject, MethodType) else subject  # a copy, as each call of a proof has
    assert not found["modules frozen"].prepare(other)(X).requires_grad
    assert NET.weight.dtype is torch.float32
    assert NET.weight.requires_grad


class Uncopied(nn.Linear):
    """A layer that refuses to be copied, as one with a handle does."""

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("no copies")


def test_a_module_that_cannot_be_copied_fails_its_own_probes_alone():
    found = observers(closed_over(Uncopied(3, 3)), Mined())
    assert "under autocast" in found
    with pytest.raises(TypeError, match="no copies"):
        found["modules frozen"].prepare(closed_over(Uncopied(3, 3)))
