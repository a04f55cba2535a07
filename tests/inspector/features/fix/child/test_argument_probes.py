"""Odd arguments tell two programs apart that agree for a scenario's own: other types, dtypes, shapes and defaults."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from ctrace.inspector.capture.calls.model_files import Loaded
from ctrace.inspector.capture.calls.ways import Call, Way
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.scenario_facts import ScenarioKind
from ctrace.inspector.facts.trial import Mined, Observed, ProofRequest
from ctrace.inspector.features.fix.child.argument_probes import (
    broadcast,
    emptied,
    many,
    other_dtypes,
    other_kinds,
    other_shapes,
    refusal,
    spelled_out,
)
from ctrace.inspector.features.fix.child.call_values import with_leaves
from ctrace.inspector.features.fix.child.observation import ModelObserver
from ctrace.inspector.features.fix.child.probes import probes
from ctrace.inspector.features.fix.repairs.comparing import differences

Forward = Callable[..., Any]
X = torch.tensor([[1.0, 2.0, -1.0], [0.5, -0.25, 0.125]])
IMAGE = torch.linspace(-1, 1, 120).reshape(2, 3, 4, 5)
MASK = torch.tensor([True, False])


def observed(forward: Forward, args: tuple[Any, ...], probe: str) -> Observed:
    net = type("Net", (nn.Module,), {"forward": forward})()
    # Called once, as what ctrace provokes: the third call of a scenario shows state, which these models have none of.
    ways = {"base": Way(lambda: Call(copy.deepcopy(args), {}), kind=ScenarioKind.PROVOKED)}
    request = ProofRequest("", probes=(f"base, {probe}",), seconds=600.0, mined=Mined(further_integers=(2, 12)))
    observer = ModelObserver(Loaded(net, ways), request, train=False)
    entries = tuple(each.entry for each in observer.observe())
    return Observed(entries, observer.watch.result(), observer.probed)


def gated(self: Any, x: Any, gate: Any) -> Any:
    return x + 1 if gate > 0.5 else x - 1


def rounds(self: Any, x: Any, steps: Any) -> Any:
    i = 0
    while i < steps and x.abs().max() > 0.1:
        x, i = x * 0.5, i + 1
    return x


def fixed_rounds(self: Any, x: Any, steps: Any) -> Any:
    for _ in range(steps):
        x = torch.where(x.abs().max() > 0.1, x * 0.5, x)
    return x


def axed_rounds(self: Any, x: Any, steps: Any, dim: Any = -1) -> Any:
    return rounds(self, x, steps).sum(dim)


def fixed_axed_rounds(self: Any, x: Any, steps: Any, dim: Any = -1) -> Any:
    return fixed_rounds(self, x, steps).sum(dim)


def selected_gate(self: Any, x: Any, a: Any, gate: Any) -> Any:
    return torch.where((gate > 0.5).reshape(()), x + a.dim() + 1, x + a.dim() - 1)


def scaled(self: Any, x: Any, n: Any, d: Any = 0.5) -> Any:
    return x * n if isinstance(d, torch.Tensor) else x * d * n


def first_flag(self: Any, x: Any, a: Any = True, b: Any = True) -> Any:
    return x * (a and b)


def cast(self: Any, x: Any, *, dtype: Any = None) -> Any:
    h = x if dtype is None else x.to(dtype)
    return h * torch.ones(3) if h.mean() > 5 else h * 1.5


def selected_cast(self: Any, x: Any, *, dtype: Any = None) -> Any:
    h = x if dtype is None else x.to(dtype)
    return torch.where(h.mean() > 5, h * torch.ones(3), h * 1.5)


def limited(self: Any, x: Any, limit: int = 64, strict: bool = False) -> Any:
    return x.double() if x.shape[0] > limit or strict else x * 1.0


def unlimited(self: Any, x: Any, limit: int = 64, strict: bool = False) -> Any:
    return x * 1.0


def padded(self: Any, x: Any, pad: Any) -> Any:
    return x * 0.5 if pad.any() else x * 2


def counted(self: Any, x: Any) -> Any:
    return x * int(torch.count_nonzero(x))


def tailed(self: Any, x: Any) -> Any:
    return x[:, 12:].max() if x.max() > 4 else x.max()


def guided(self: Any, x: Any, scale: Any) -> Any:
    return x * scale if x.abs().amax() > 1 else x * 1.0


def selected_guided(self: Any, x: Any, scale: Any) -> Any:
    return torch.where(x.abs().amax() > 1, x * scale, x * 1.0)


def multiplied(self: Any, x: Any) -> Any:
    x = x * 0.5 if x.sum() > 100 else x * 1.0
    return x @ torch.ones(3, 2)


def selected_multiplied(self: Any, x: Any) -> Any:
    return torch.where(x.sum() > 100, x * 0.5, x * 1.0) @ torch.ones(3, 2)


def keyed(self: Any, batch: Any) -> Any:
    x = batch["x"]
    return x + batch["shift"] if x.sum() > 100 else x * 1.0


def selected_keyed(self: Any, batch: Any) -> Any:
    x = batch["x"]
    return torch.where(x.sum() > 100, x + batch["shift"], x * 1.0)


def either(self: Any, x: Any, z: Any) -> Any:
    return x * 2 if x.sum() > 100 else z * 1


def selected_either(self: Any, x: Any, z: Any) -> Any:
    return torch.where(x.sum() > 100, x * 2, z * 1)


def masked(self: Any, x: Any, z: Any) -> Any:
    return x * z if x.sum() > 100 else x * 1


def selected_mask(self: Any, x: Any, z: Any) -> Any:
    return torch.where(x.sum() > 100, x * z, x * 1)


def spread(self: Any, x: Any, z: Any) -> Any:
    return x.sum(0) * 2 if x.sum() < 100 else z * 1


def selected_spread(self: Any, x: Any, z: Any) -> Any:
    return torch.where(x.sum() < 100, x.sum(0) * 2, z * 1)


def squeezed(self: Any, x: Any) -> Any:
    return x.squeeze() * 2 if x.sum() < 100 else x[0] * 1


def selected_squeezed(self: Any, x: Any) -> Any:
    return torch.where(x.sum() < 100, x.squeeze() * 2, x[0] * 1)


@pytest.mark.parametrize(
    ("probe", "before", "after", "args"),
    [
        ("tensor 2 alone of one row", either, selected_either, (X, X + 1)),
        ("tensor 2 alone of one column", either, selected_either, (X, X + 1)),
        ("tensor 1 alone of one row", masked, selected_mask, (X, X + 1)),
        ("tensor 2 alone for each row", spread, selected_spread, (X, X[0])),
        ("all of size 1", squeezed, selected_squeezed, (torch.ones(1, 3),)),
        ("numbers as rows beside small inputs", guided, selected_guided, (X, 3.0)),
        ("tensor 1 alone sparse", multiplied, selected_multiplied, (X,)),
        ("tensors as numbers", gated, lambda s, x, g: torch.where((g > 0.5).reshape(()), x + 1, x - 1), (X, X[0, 0])),
        ("numbers as tensors", lambda s, x, n: x * n, lambda s, x, n: x * (n if isinstance(n, int) else 3), (X, 2)),
        ("integers as floats", rounds, fixed_rounds, (X, 8)),
        ("numbers infinite", rounds, fixed_rounds, (X, 8)),
        ("number 1 alone infinite", axed_rounds, fixed_axed_rounds, (X, 8)),
        ("number 1 alone as float", axed_rounds, fixed_axed_rounds, (X, 8)),
        ("number 2 alone as tensor", scaled, lambda s, x, n, d=0.5: x * d * n, (X, 8)),
        ("number 1 alone larger", lambda s, x, n, d=0: x.sum(d) * (n < 9), lambda s, x, n, d=0: x.sum(d), (X, 8)),
        ("number 2 alone 0", lambda s, x, n, d=1: x.sum(d) / n, lambda s, x, n, d=1: x.sum(1) / n, (X, 8)),
        ("tensor 2 alone as number", lambda s, x, a, g: gated(s, x + a.dim(), g), selected_gate, (X, X[0, 1], X[0, 0])),
        ("flag 2 alone inverted", lambda s, x, a=True, b=True: x * (a or b), first_flag, (X,)),
        ("dtype bfloat16", cast, selected_cast, (X,)),
        ("numbers 0", limited, unlimited, (X,)),
        ("flags inverted", limited, unlimited, (X,)),
        ("numbers 2", lambda s, x, n=7: x * 2 if n == 2 else x, lambda s, x, n=7: x, (X,)),
        ("booleans as uint8", padded, lambda s, x, p: torch.where(~p.any(), x * 2, x * 0.5), (X, MASK)),
        ("booleans as int64", lambda s, x, p: x[~p], lambda s, x, p: x[p.logical_not()], (X, MASK)),
        ("integers as booleans", counted, lambda s, x: x * torch.count_nonzero(x).to(x.dtype), (X.long(),)),
        ("integers as uint8", lambda s, x: -x, lambda s, x: -x.long(), (X.long(),)),
        ("integers as int32", lambda s, x: x + 1, lambda s, x: x.long() + 1, (X.long(),)),
        ("floats as booleans", counted, lambda s, x: x * torch.count_nonzero(x).to(x.dtype), (X,)),
        ("floats as uint8", lambda s, x: -x, lambda s, x: 0.0 - x, (X,)),
        (
            "dimension 2 of size 1",
            lambda s, x: x + torch.ones(4, 1) if x.max() > 4 else x * 1,
            lambda s, x: torch.where(x.max() > 4, x + torch.ones(4, 1), x * 1),
            (IMAGE,),
        ),
        (
            "one dimension less",
            lambda s, x: x - torch.ones(1, 3) if x.max() > 4 else x * 1,
            lambda s, x: torch.where(x.max() > 4, x - torch.ones(1, 3), x * 1),
            (X,),
        ),
        ("one dimension more", lambda s, x: x.sum(0), lambda s, x: x.sum(-2), (X,)),
        ("dimension 3 larger", lambda s, x: x[..., 5:].sum(), lambda s, x: x[..., 5:].sum() * 0, (IMAGE,)),
        ("rows 12", tailed, lambda s, x: torch.where(x.max() > 4, x[:, 12:].max(), x.max()), (torch.ones(2, 16),)),
        ("without key 2", keyed, selected_keyed, ({"x": X, "shift": X[0]},)),
        ("dictionary subclass", lambda s, x: copy.copy(x), lambda s, x: x.copy(), ({"x": X},)),
    ],
)
def test_an_odd_argument_tells_two_programs_apart(probe: str, before: Forward, after: Forward, args: tuple[Any, ...]):
    first = observed(before, args, probe)
    assert first.probes == (f"base, {probe}",)
    found = differences(first, observed(after, args, probe))
    assert {each.entry for each in found} == {f"base, {probe}"}, found


def test_probes_leave_alone_what_has_no_such_argument():
    plain = Call((X,), {})

    def forward(x: Any) -> Any:
        return x

    for name, change in {**other_kinds(spelled_out(forward)), **other_dtypes(forward)}.items():
        if not name.startswith("floats") and name != "tensor 1 alone sparse":
            with pytest.raises(TargetError):
                change(plain)
    for name in ("dimension 2 larger", "dimension 3 of size 1"):
        with pytest.raises(TargetError):
            other_shapes()[name](plain)


def test_defaults_are_passed_once():
    def forward(x: Any, scale: float = 2.0, *rest: Any, on: bool = False, kind: str = "a", mask: Any = None) -> Any:
        return x

    assert spelled_out(forward)(Call((1,), {})).kwargs == {"scale": 2.0, "on": False}
    assert spelled_out(forward)(Call((1, 3.0), {"on": True})).kwargs == {"on": True}
    assert spelled_out(forward)(Call((), {"unknown": 1})).kwargs == {"unknown": 1}
    assert spelled_out(len)(Call((1,), {})).kwargs == {}


def test_a_refused_argument_counts_by_its_kind():
    assert refusal("AttributeError: 'float' object has no attribute 'item'") == "AttributeError"
    assert refusal("ValueError: too large") == "ValueError: too large"
    assert refusal("") == ""


# Placeholders


def step(self: Any, x: Any, previous: Any) -> Any:
    return x + previous if x.sum() > 100 else x * 2


def selected_step(self: Any, x: Any, previous: Any) -> Any:
    return torch.where(x.sum() > 100, x + previous, x * 2)


def test_a_tensor_that_is_not_used_may_be_empty():
    probe = "tensor 2 alone empty"
    found = differences(*(observed(each, (X, X.clone()), probe) for each in (step, selected_step)))
    assert [each.entry for each in found][:1] == [f"base, {probe}"]


def test_lists_and_dictionaries_are_emptied():
    call = Call(([torch.ones(2)], torch.ones(2)), {"masks": {"a": torch.ones(2)}})
    found = emptied()["no elements"](call)
    assert found.args[0] == []
    assert found.args[1] is call.args[1]
    assert found.kwargs == {"masks": {}}
    with pytest.raises(TargetError):
        emptied()["no elements"](Call((torch.ones(2), []), {}))


def test_only_one_of_several_tensors_is_emptied():
    change = emptied()["tensor 1 alone empty"]
    assert [leaf.numel() for leaf in change(Call((X, X.clone()), {})).args] == [0, 6]
    with pytest.raises(TargetError):
        change(Call((X,), {}))


# Shapes that torch broadcasts


@pytest.mark.parametrize("probe", broadcast())
def test_a_tensor_that_both_sides_use_may_be_broadcast(probe: str):
    def scaled(self: Any, x: Any, z: Any) -> Any:
        return x * z if x.sum() > 100 else x / z

    def selected_scale(self: Any, x: Any, z: Any) -> Any:
        return torch.where(x.sum() > 100, x * z, x / z)

    for args in ((X, X + 1), (X, X[0])):
        assert not differences(*(observed(each, args, probe) for each in (scaled, selected_scale)))


def test_one_tensor_of_several_is_broadcast():
    bias = torch.arange(3.0, requires_grad=True)
    call = Call((X, X + 1), {"bias": bias})

    def shapes(name: str) -> list[tuple[int, ...]]:
        made = broadcast()[f"tensor {name}"](call)
        return [tuple(leaf.shape) for leaf in (*made.args, made.kwargs["bias"])]

    assert shapes("2 alone of one row") == [(2, 3), (1, 3), (3,)]
    assert shapes("1 alone of one column") == [(2, 1), (2, 3), (3,)]
    assert shapes("3 alone for each row") == [(2, 3), (2, 3), (2, 3)]
    assert broadcast()["tensor 3 alone for each row"](call).kwargs["bias"].requires_grad
    for name in ("2 alone for each row", "3 alone of one column", "4 alone of one row"):
        with pytest.raises(TargetError):
            shapes(name)
    with pytest.raises(TargetError):
        broadcast()["tensor 1 alone of one row"](Call((X,), {}))


# Counts


def test_integers_get_a_count_that_bfloat16_rounds():
    call = Call((torch.tensor([5, 3]), torch.tensor([True]), torch.ones(2), torch.tensor([1])), {})
    lengths, mask, floats, step = many()["integers of 257"](call).args
    assert (lengths.tolist(), mask.tolist(), floats.tolist(), step.tolist()) == ([257, 257], [True], [1, 1], [257])
    alone = many()["integers 2 alone of 257"](call).args
    assert (alone[0].tolist(), alone[3].tolist()) == ([5, 3], [257])
    for name, other in (("integers 1 alone of 257", call.args[:1]), ("integers of 257", call.args[1:3])):
        with pytest.raises(TargetError):
            many()[name](Call(other, {}))


def weighted(self: Any, x: Any, lengths: Any) -> Any:
    return lengths.max().item() * x


def weighted_by_tensor(self: Any, x: Any, lengths: Any) -> Any:
    return lengths.max().detach() * x


def test_a_count_on_the_left_of_16_bits_is_rounded():
    x = torch.linspace(-1, 1, 24).view(4, 6)
    probe = "model in bfloat16 on integers of 257"
    found = differences(*(observed(each, (x, torch.tensor([4, 2])), probe) for each in (weighted, weighted_by_tensor)))
    assert f"base, {probe}" in {each.entry for each in found}


# Objects that are no tree for torch


@dataclass(frozen=True)
class Config:
    layers: int


@dataclass(frozen=True)
class Batch:
    x: Any
    rate: int = 2
    is_new: bool = False
    config: Any = None


@pytest.mark.parametrize(
    ("probe", "expected"),
    [
        ("batch 1", ((1, 3), 2, False)),
        ("dimension 1 larger", ((2, 4), 2, False)),
        ("numbers larger", ((2, 3), 21, False)),
        ("integers as floats", ((2, 3), 2.0, False)),
        ("flags inverted", ((2, 3), 2, True)),
    ],
)
def test_an_object_that_holds_tensors_is_changed_like_its_parts(probe: str, expected: Any):
    settings = Config(3)
    call = Call((Batch(torch.ones(2, 3), config=settings),), {})
    changes = {**probes(), **other_shapes(), **other_kinds(lambda call: call)}
    batch = changes[probe](call).args[0]
    assert (tuple(batch.x.shape), batch.rate, batch.is_new) == expected
    assert type(batch.rate) is type(expected[1])
    assert batch.config is settings, "it holds no tensor"
    assert call.args[0] == Batch(call.args[0].x, config=settings), "the arguments stay as they are"


def test_leaves_of_an_object_that_is_passed_twice_change_once():
    batch = Batch(torch.ones(2), rate=3)
    made = with_leaves(Call((batch, batch), {}), lambda leaf: isinstance(leaf, int), lambda number: number + 1)
    assert made.args[0] is made.args[1]
    assert (made.args[0].rate, made.args[0].is_new) == (4, 1)
    with pytest.raises(TargetError):
        with_leaves(Call((batch,), {}), lambda leaf: isinstance(leaf, str), lambda text: text)
