"""Attributes that callers choose get values of other types and forms."""

import copy
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from msgspec.structs import replace
from torch import nn
from torch.nn import functional

from ctrace.inspector.capture.calls.model_files import Loaded
from ctrace.inspector.capture.calls.ways import Call, Way
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.scenario_facts import ScenarioKind
from ctrace.inspector.facts.trial import Condition, Mined, Observed, ProofRequest
from ctrace.inspector.features.fix.child.observation import ModelObserver
from ctrace.inspector.features.fix.child.other_objects import other_values
from ctrace.inspector.features.fix.child.probing import Probing
from ctrace.inspector.features.fix.repairs.comparing import differences

Forward = Callable[..., Any]


def stretched(self: Any, x: Any, n: Any) -> Any:
    return x, n * self.held if n.max() > 6 else n + 0


def selected(self: Any, x: Any, n: Any) -> Any:
    return x, torch.where(n.max() > 6, n * self.held, n + 0)


def always(self: Any, x: Any, n: Any) -> Any:
    return x, n * self.held


def copied(self: Any, x: Any, n: Any) -> Any:
    return x - copy.deepcopy(self.held)


def cloned(self: Any, x: Any, n: Any) -> Any:
    return x - self.held.detach().clone()


def written(self: Any, x: Any, n: Any) -> Any:
    held = copy.deepcopy(self.held)
    held[0] = 1.0
    return x + held.sum()


def written_clone(self: Any, x: Any, n: Any) -> Any:
    held = self.held.detach().clone()
    held[0] = 1.0
    return x + held.sum()


def traced(self: Any, x: Any, n: Any) -> Any:
    held = copy.deepcopy(self.held)
    held["a"].add_(1.0)
    return x + held["b"]


def traced_apart(self: Any, x: Any, n: Any) -> Any:
    held = {key: copy.deepcopy(value) for key, value in self.held.items()}
    held["a"].add_(1.0)
    return x + held["b"]


def damped(self: Any, x: Any, n: Any) -> Any:
    y = x.to(self.held)
    y[y > 0] *= 0.5
    return y


def damped_everywhere(self: Any, x: Any, n: Any) -> Any:
    y = x.to(self.held)
    return y.copy_(torch.where(y > 0, y * 0.5, y))


def shifted(self: Any, x: Any, n: Any) -> Any:
    return x - self.held if x.sum() > 100 else x + 1


def selected_shift(self: Any, x: Any, n: Any) -> Any:
    return torch.where(x.sum() > 100, x - self.held, x + 1)


def decayed(self: Any, x: Any, n: Any) -> Any:
    return x * self.held[0] if x.sum() > 100 else x + 1


def selected_decay(self: Any, x: Any, n: Any) -> Any:
    return torch.where(x.sum() > 100, x * self.held[0], x + 1)


def weighted(self: Any, x: Any, n: Any) -> Any:
    held = copy.deepcopy(self.held)
    return x * held[0]


def weighted_in_place(self: Any, x: Any, n: Any) -> Any:
    return x * self.held[0]


def doubled(self: Any, x: Any, n: Any) -> Any:
    rounds = 0
    while n.max() < 6 and rounds < 3:
        n, rounds = n * self.held, rounds + 1
    return n + 0


def always_doubled(self: Any, x: Any, n: Any) -> Any:
    for _ in range(3):
        n = torch.where(n.max() < 6, n * self.held, n)
    return n + 0


def reduced(self: Any, x: Any, n: Any) -> Any:
    loss = functional.mse_loss(x, x * 2, reduction=self.held)
    return loss * x.amax(0) if x.sum() > 100 else loss + 0


def selected_loss(self: Any, x: Any, n: Any) -> Any:
    loss = functional.mse_loss(x, x * 2, reduction=self.held)
    return torch.where(x.sum() > 100, loss * x.amax(0), loss + 0)


def gated(self: Any, x: Any, n: Any) -> Any:
    gate = x.amax(1, keepdim=self.held)
    return gate * x.amin(1, keepdim=True) if x.sum() > 100 else gate + 0


def selected_gate(self: Any, x: Any, n: Any) -> Any:
    gate = x.amax(1, keepdim=self.held)
    return torch.where(x.sum() > 100, gate * x.amin(1, keepdim=True), gate + 0)


def mirrored(self: Any, x: Any, n: Any) -> Any:
    y = (x + 0)[None].expand(self.held, -1, -1)
    y[y < 0] *= -1
    return y.sum(0)


def mirrored_by_mask(self: Any, x: Any, n: Any) -> Any:
    y = (x + 0)[None].expand(self.held, -1, -1)
    y.copy_(torch.where(y < 0, y * -1, y))
    return y.sum(0)


def weakened(self: Any, x: Any, n: Any) -> Any:
    return x * self.held if x.sum() > 100 else x * 1


def selected_weight(self: Any, x: Any, n: Any) -> Any:
    return torch.where(x.sum() > 100, x * self.held, x * 1)


def weakened_loss(self: Any, x: Any, n: Any) -> Any:
    loss = x.mean()
    return loss * self.held if loss > 100 else loss * 1


def selected_loss_weight(self: Any, x: Any, n: Any) -> Any:
    loss = x.mean()
    return torch.where(loss > 100, loss * self.held, loss * 1)


def doubled_or_halved(self: Any, x: Any, n: Any) -> Any:
    return x * self.held if x.sum() > 100 else x / self.held


def selected_factor(self: Any, x: Any, n: Any) -> Any:
    return torch.where(x.sum() > 100, x * self.held, x / self.held)


TENSORS = ("a tensor in float64", "a tensor in float64 with one element")


def observed(forward: Forward, held: Any, probes: tuple[str, ...] | None) -> Observed:
    net = type("Net", (nn.Module,), {"forward": forward})()
    net.held = copy.deepcopy(held)
    inputs = torch.tensor([[1.0, -2.0, 3.0]] * 3), torch.tensor([1, 2, 3])
    # Called once, as what ctrace provokes: the third call of a scenario shows state, which these models do not change.
    ways = {"base": Way(lambda: Call(copy.deepcopy(inputs), {}), kind=ScenarioKind.PROVOKED)}
    names = (
        *("an empty one", "a fraction", "a larger number", "a number", "one row in memory", "one tensor", "int32"),
        *("float64", "the opposite", "'mean'", "'sum'", "'none'", "a tensor in float64"),
        "a tensor in float64 with one element",
    )
    chosen = tuple(f"base, object with held as {each}" for each in names)
    mined = Mined(chosen=("held",), untyped=("held",), undefined=("held",))
    request = ProofRequest("", probes=probes or chosen, seconds=600.0, mined=mined)
    observer = ModelObserver(Loaded(net, ways), request, train=False)
    entries = tuple(each.entry for each in observer.observe())
    return Observed(entries, observer.watch.result(), observer.probed)


def kinds_apart(before: Forward, after: Forward, held: Any) -> set[str]:
    first, second = observed(before, held, None), observed(after, held, None)
    assert first.probes
    return {each.entry.rpartition(" as ")[2] for each in differences(first, second)}


@pytest.mark.parametrize(
    ("before", "after", "held", "kinds"),
    [
        (stretched, selected, 2, {"a fraction", *TENSORS}),
        (weakened, selected_weight, 0.5, {TENSORS[1]}),
        (weakened_loss, selected_loss_weight, 0.5, {*TENSORS}),
        (doubled_or_halved, selected_factor, 0.5, set()),
        (stretched, stretched, 2, set()),
        (always, always, 2, set()),
        (copied, cloned, torch.zeros(3), {"a number"}),
        (shifted, selected_shift, torch.ones(3), {"float64"}),
        (written, written_clone, torch.zeros(4, 3), {"one row in memory", "a number"}),
        (traced, traced_apart, {"a": torch.zeros(3), "b": torch.zeros(3)}, {"one tensor"}),
        (traced, traced_apart, {"a": torch.zeros(3), "b": torch.zeros(3), "c": [torch.ones(2)]}, {"one tensor"}),
        (damped, damped_everywhere, torch.float32, {"int32"}),
        (decayed, selected_decay, (0.5, 0.25), {"an empty one"}),
        (decayed, decayed, (0.5, 0.25), set()),
        (weighted, weighted_in_place, defaultdict(float, {0: 2.0}), {"an empty one"}),
        (reduced, selected_loss, "none", {"'mean'", "'sum'"}),
        (reduced, reduced, "none", set()),
        (gated, selected_gate, True, {"the opposite"}),
        (mirrored, mirrored_by_mask, 1, {"a larger number"}),
    ],
)
def test_an_attribute_of_another_kind(before: Forward, after: Forward, held: Any, kinds: set[str]):
    assert kinds_apart(before, after, held) == kinds


class Options(NamedTuple):
    rate: int


@dataclass(frozen=True)
class Config:
    rate: int = 2


@pytest.mark.parametrize(
    ("held", "path", "value"),
    [
        (2, "held", 2.5),
        (Config(), "held.rate", 2.5),
        ({"rate": 2}, "held['rate']", 2.5),
        (Options(2), "held.rate", None),
    ],
)
def test_a_part_of_what_an_attribute_holds(held: Any, path: str, value: float | None):
    net = nn.Module()
    net.held = held
    found = dict(other_values(net, Mined(chosen=(path, "missing", "held.missing"))))
    names = [f"object with {path} as a {kind}" for kind in ("fraction", "larger number")]
    assert list(found) == (names if value is not None else [])
    if value is not None:
        assert eval(f"net.{path}", {"net": found[names[0]](net)}) == value


def test_a_buffer_of_another_dtype():
    net = nn.Module()
    net.register_buffer("held", torch.zeros(3))
    found = dict(other_values(net, Mined(chosen=("held",))))
    with pytest.raises(TargetError):
        found["object with held as a number"](net)
    assert found["object with held as float64"](net).held.dtype is torch.float64
    assert "held" in net.state_dict()


def test_a_loop_is_also_called_with_inputs_that_end_it_at_once():
    before = type("Net", (nn.Module,), {"forward": doubled, "held": 2})()
    after = type("Net", (nn.Module,), {"forward": always_doubled, "held": 2})()
    before.held = after.held = 2
    ways = {"base": Way(lambda: Call((torch.ones(3), torch.tensor([1, 2, 3])), {}))}
    condition = Condition(__file__, doubled.__code__.co_firstlineno + 2, "n.max() < 6")
    fraction, ends = "object with held as a fraction", "integers plus 5"
    request = ProofRequest("", probes=(f"base, {ends}",), conditions=(condition,), mined=Mined(chosen=("held",)))
    observer = ModelObserver(Loaded(before, ways), request, train=False)
    assert len(list(observer.observe())) == 4
    probing = Probing(request, observer.watch)
    crossed = [*probing._missed("base", probing._observers(before))]
    assert (fraction, ends) in crossed
    probe = f"base, {fraction} on {ends}"
    request = replace(request, probes=(probe,), conditions=())
    first, second = (
        Observed(tuple(each.entry for each in ModelObserver(Loaded(net, ways), request, train=False).observe()))
        for net in (before, after)
    )
    assert {each.entry for each in differences(first, second)} == {probe}
