"""What an observation of a changed model shows: the differences that only one obligation leaves open."""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from pickle import PicklingError
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from ctrace.inspector.capture.calls.model_files import Loaded
from ctrace.inspector.capture.calls.ways import Call, Way
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.scenario_facts import ScenarioKind
from ctrace.inspector.facts.trial import NEEDED, ON, OTHERS_IN_FLOAT64, Condition, Mined, Observed, ProofRequest
from ctrace.inspector.features.fix.child.both_sides import SideWatch
from ctrace.inspector.features.fix.child.call_values import mapped, tensors
from ctrace.inspector.features.fix.child.digests import error_text
from ctrace.inspector.features.fix.child.observation import ModelObserver
from ctrace.inspector.features.fix.child.observers import Observer, observers
from ctrace.inspector.features.fix.child.probes import probes, searches
from ctrace.inspector.features.fix.child.probing import Probing
from ctrace.inspector.features.fix.repairs.comparing import CallDifference, differences
from ctrace.inspector.features.fix.repairs.obligations import about

Forward = Callable[[Any, torch.Tensor], Any]
HERE = str(Path(__file__))
NOTHING = Mined()


class Plain(nn.Module):
    """A model with a layer, a frozen shift and a container; `Net` in each test says what it computes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        with torch.no_grad():
            self.linear.weight.copy_(torch.eye(3))
            self.linear.bias.zero_()
        self.shift = nn.Parameter(torch.zeros(3), requires_grad=False)
        self.act = nn.ReLU()
        self.kept: dict[str, Any] = {}
        self.warm = False

    def bump(self) -> None:
        if self.warm:
            self.kept["bumped"] = True


def model(forward: Forward) -> nn.Module:
    return type("Net", (Plain,), {"forward": forward})()


def base() -> Call:
    return Call((torch.tensor([[1.0, 2.0, -1.0], [0.5, -0.25, 0.125]]),), {})


def observed(
    forward: Forward, *conditions: Condition, only: Iterable[str] | None = (), flags: tuple[str, ...] = ()
) -> Observed:
    """Observe a model's calls: the scenario, and `only` some probes; None: all of them, which takes seconds."""
    probes = None if only is None else tuple(f"base, {each}" for each in only)
    mined = Mined(attributes=flags)
    request = ProofRequest("", conditions=conditions, probes=probes, seconds=600.0, mined=mined)
    observer = ModelObserver(Loaded(model(forward), {"base": Way(base)}), request, train=False)
    entries = tuple(each.entry for each in observer.observe())
    return Observed(entries, observer.watch.result(), observer.probed)


def apart(before: Forward, after: Forward, *, only: tuple[str, ...] = ()) -> tuple[CallDifference, ...]:
    first = observed(before, only=only)
    assert set(first.probes) == {f"base, {each}" for each in only}
    return differences(first, observed(after, only=only))


def known(subject: Any, mined: Mined = NOTHING) -> dict[str, Observer]:
    """Return all probes of a subject by name, in their order; none is run."""
    return Probing(ProofRequest("", mined=mined), SideWatch(()))._observers(subject)


def has_form(probe: Observer, subject: Any) -> bool:
    """Whether a subject and its call can be changed as a probe does."""
    try:
        probe.change(base())
        probe.prepare(subject)
    except (PicklingError, AttributeError):  # what is raised before a call is observed, too
        return True
    except Exception:
        return False
    return True


def condition(function: Forward, text: str, offset: int) -> Condition:
    return Condition(HERE, function.__code__.co_firstlineno + offset, text)


def test_kept_tensors_that_no_longer_share_memory_differ():
    def before(self: Any, x: torch.Tensor) -> Any:
        h = self.linear(x)
        self.kept = {"h": h, "y": h}
        return h + 1

    def after(self: Any, x: torch.Tensor) -> Any:
        h = self.linear(x)
        self.kept = {"h": h, "y": h * 1}
        return h + 1

    found = [each for each in apart(before, after) if each.kind == "memory"]
    assert found
    assert "shares memory of" in found[0].detail
    assert about(found[0]) == "identity"


FROZEN = ("all trained", "shift alone trained", "linear.weight alone frozen")
"""Probes of what is trained; `test_equal_models_are_equal` checks that they are repeated with inputs of the other side
of a condition."""


def test_a_frozen_parameter_of_the_other_side_is_trained_there():
    def before(self: Any, x: torch.Tensor) -> Any:
        h = self.linear(x)
        if h.sum() < 0:
            return h * 2
        return h + self.shift

    def after(self: Any, x: torch.Tensor) -> Any:
        h = self.linear(x)
        return torch.where(h.sum() < 0, h * 2, h + self.shift)

    found = apart(before, after, only=(*FROZEN, "negated", *(f"{each} on negated" for each in FROZEN)))
    trained = {each.entry for each in found if each.kind == "gradients"}
    assert trained == {f"base, {each} on negated" for each in FROZEN}, "the side that the model's own inputs miss"
    assert "gradient" in {about(each) for each in found}


def gated(self: Any, x: torch.Tensor) -> Any:
    h = self.linear.bias + x
    if x.sum() < 0:
        h = h * x
    return h


def test_what_a_backward_pass_of_the_other_side_needs():
    def after(self: Any, x: torch.Tensor) -> Any:
        h = self.linear.bias + x
        return torch.where(x.sum() < 0, h * x, h)

    def without_inputs(self: Any, x: torch.Tensor) -> Any:
        h = self.linear.bias + x
        return torch.where(x.sum() < 0, torch.where(x.sum() < 0, h, 1) * torch.where(x.sum() < 0, x, 1), h)

    only = (NEEDED, f"{NEEDED} on negated")
    found = [each for each in apart(gated, after, only=only) if each.kind == "needed"]
    assert [each.entry for each in found] == ["base, noting what a backward pass needs"]
    assert found[0].detail == "a backward pass raises if input 0 is written to before it, and did not before"
    assert about(found[0]) == "gradient"
    assert not apart(gated, gated, only=only)
    # What is no longer needed may be written to: no program relies on the error.
    assert not [each for each in apart(gated, without_inputs, only=only) if each.kind == "needed"]


@pytest.mark.parametrize(
    ("probe", "after"),
    [
        ("under autocast", lambda self, x: torch.where(x.sum() > 0, self.linear(x), x * 2)),
        (
            "under another default dtype",
            lambda self, x: [self.linear(x), (x > 0) * torch.tensor(0.5, dtype=torch.float32)],
        ),
        ("with layers in place", lambda self, x: [self.linear(x) * 1, self.act(self.linear(x))]),
    ],
)
def test_what_users_do_around_a_call(probe: str, after: Forward):
    def choice(self: Any, x: torch.Tensor) -> Any:
        return self.linear(x) if x.sum() > 0 else x * 2

    def both(self: Any, x: torch.Tensor) -> Any:
        h = self.linear(x)
        return [h, self.act(h)]

    def halves(self: Any, x: torch.Tensor) -> Any:
        return [self.linear(x), (x > 0) * 0.5]

    before = {"under autocast": choice, "under another default dtype": halves}.get(probe, both)
    found = {each.entry for each in apart(before, after, only=(probe,)) if each.kind == "outputs"}
    assert found == {f"base, {probe}"}


def test_equal_models_are_equal():
    """The one test that makes all probes: those that the model has, and some again with inputs of the other side."""

    def forward(self: Any, x: torch.Tensor) -> Any:
        h = self.linear(x)
        self.kept["h"] = h
        if h.sum() > 0:
            return self.act(h)
        return h + self.shift

    first = observed(forward, condition(forward, "h.sum() > 0", 3), only=None)
    again = observed(forward, only=[each.removeprefix("base, ") for each in first.probes])
    assert not differences(first, again)
    assert again.probes == first.probes
    probes = known(model(forward))
    # Both sides are reached without a search, and the model draws no random numbers.
    usual = {name: each for name, each in probes.items() if name not in searches() and not each.draws}
    own = [name for name, each in usual.items() if has_form(each, model(forward))]
    assert list(first.probes[: len(own)]) == [f"base, {name}" for name in own]
    (sides,) = first.sides
    missed = [name for name in own if probes[name].is_crossed and f"base, {name}" not in sides.false]
    crossed = {f"base, {name} on negated" for name in missed}
    assert set(first.probes[len(own) :]) == crossed
    assert {f"base, {name} on negated" for name in (*FROZEN, NEEDED)} <= crossed
    assert {"negated", *FROZEN, NEEDED, "with layers in place", "linear in bfloat16"} <= set(own)


class Shown:
    """A value whose text only a comparison asks for."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "shown"


def test_only_what_the_program_runs_counts_as_run():
    def forward(self: Any, x: torch.Tensor) -> Any:
        h = self.linear(x)

        def doubled(gradient: torch.Tensor) -> torch.Tensor:
            return gradient * 2

        h.register_hook(doubled)
        return h + 1, Shown()

    backward = condition(forward, "", 4)
    text = Condition(HERE, Shown.__repr__.__code__.co_firstlineno + 1, "")
    hooked, compared = observed(forward, backward, text).sides
    assert hooked.true == ("base",)
    assert not compared.true


def test_a_line_of_a_method_that_needs_a_flag_is_run():
    def forward(self: Any, x: torch.Tensor) -> Any:
        return self.linear(x)

    line = Condition(HERE, Plain.bump.__code__.co_firstlineno + 2, "")
    only = [each for each in known(model(forward), Mined(attributes=("warm",))) if "bump()" in each or "warm" in each]
    assert {"after bump()", "around bump()", "warm = True"} <= {*only}
    (without,) = observed(forward, line, only=only).sides
    (inverted,) = observed(forward, line, only=only, flags=("warm",)).sides
    assert not without.true
    assert inverted.true == ("base, around bump() with all flags inverted",)


class Offset(nn.Module):
    """A layer whose offset a user may take away, set or load."""

    offset: Any

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("offset", torch.zeros(3))
        self.gain = 1.0

    def unload(self) -> None:
        self.offset = None

    def calibrate(self, *, profile: Any) -> None:
        self.offset = profile

    def load(self, found: Any) -> None:
        self.offset = torch.as_tensor(found["mean"])

    def select(self, name: str, limit: int = 3) -> Any:
        return self._buffers[name] if limit else None

    def tune(self, gain: Any) -> None:
        self.gain = gain

    @property
    def shift(self) -> Any:
        return self.offset

    @shift.setter
    def shift(self, value: Any) -> None:
        self.offset = value

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.offset


class Other(Offset):
    """A class that no test constructs."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = None


def calls_after(subject: nn.Module, mined: Mined) -> Observed:
    """Observe the calls before which a method is called, each that a proof makes."""
    asked = tuple(f"base, {each}" for each in known(subject, mined) if each.startswith("after "))
    ways = {"base": Way(lambda: Call((torch.ones(2, 3),), {}))}
    request = ProofRequest("", probes=asked, seconds=600.0, mined=mined)
    observer = ModelObserver(Loaded(subject, ways), request, train=False)
    return Observed(tuple(each.entry for each in observer.observe()), probes=observer.probed)


def test_methods_of_layers_get_what_their_parameters_may_mean():
    methods = ("unload", "calibrate", "load", "shift", "tune")
    found = calls_after(nn.Sequential(Offset(), Offset()), Mined(methods=methods, files=(HERE,)))
    names = [each.name.removeprefix("base, after ") for each in found.entries if ", after 0." in each.name]
    assert "0.unload()" in names
    assert names.index("0.shift(doubles)") < names.index("0.select(2)"), "first those that matter"
    assert not any(each.startswith("1.") for each in names), "one of each class"
    assert not any("tune(doubles)" in each for each in names), "it is a number"
    assert not any("select(doubles)" in each for each in names), "it does not matter"

    def entry(name: str) -> Any:
        return next(each for each in found.entries if each.name == f"base, after 0.{name}")

    assert "TypeError" in entry("unload()").raised
    for name in ("calibrate(doubles)", "load(a dictionary)", "load(a dictionary of arrays)", "shift(doubles)"):
        assert "float64" in str(entry(name).outputs), name
    assert not entry("select(2)").raised


def test_more_methods_than_a_proof_calls_leave_those_that_matter():
    def method(self: Any) -> None:
        self.kept["called"] = True

    many = {f"m{number}": method for number in range(40)}
    method.__name__ = "one_of_many"
    subject = type("Many", (Plain,), {"forward": lambda self, x: x * 2, **many, "unload": Offset.unload})()
    names = calls_after(subject, Mined(methods=("unload",), files=(HERE,))).probes
    # With the calls in the other mode, and under inference_mode.
    assert len(names) == 16 + 2
    assert "base, after unload()" in names


def test_a_method_that_says_what_a_repair_sets_is_not_called():
    said = {name: lambda self: "eager" for name in ("get_kind", "get_size")}
    for name, method in said.items():
        method.__name__ = name
    subject = type("Said", (Plain,), {"forward": lambda self, x: x * 2, **said})()
    names = calls_after(subject, Mined(reporting=("get_kind",), files=(HERE,))).probes
    assert "base, after get_size()" in names
    assert "base, after get_kind()" not in names


@pytest.mark.parametrize(("name", "has_run"), [("Offset", True), ("Module", False), ("Other", False)])
def test_a_constructor_has_run_where_a_call_gets_such_an_object(name: str, has_run: bool):
    request = ProofRequest("", probes=(), conditions=(Condition(HERE, 1, "", constructed=name),))
    ways = {"base": Way(lambda: Call((torch.ones(2, 3),), {}))}
    observer = ModelObserver(Loaded(nn.Sequential(Offset(), Offset()), ways), request, train=False)
    assert list(observer.observe())
    (found,) = observer.watch.result()
    assert bool(found.true) == has_run


class Record:
    """What a model may return or get: no tree for torch."""

    __slots__ = ("aux", "logits")

    def __init__(self, logits: Any, aux: Any = None) -> None:
        self.logits = logits
        self.aux = aux

    def __call__(self) -> Any:
        return self.logits


@pytest.mark.parametrize(
    "wrap",
    [
        Record,
        lambda value: deque([value]),
        lambda value: Record(Record(value)),
        lambda value: partial(print, value),
        lambda value: SimpleNamespace(logits=value),
    ],
    ids=["slots", "deque", "nested", "partial", "attributes"],
)
def test_results_are_compared_in_whatever_holds_them(wrap: Callable[[Any], Any]):
    def before(self: Any, x: torch.Tensor) -> Any:
        return wrap(self.linear(x) * 2)

    def after(self: Any, x: torch.Tensor) -> Any:
        return wrap(self.linear(x) * 2.0 + 1)

    assert "outputs" in {each.kind for each in apart(before, after)}


def test_gradients_flow_from_what_an_object_holds():
    def before(self: Any, x: torch.Tensor) -> Any:
        return Record(self.linear(x))

    def after(self: Any, x: torch.Tensor) -> Any:
        return Record(self.linear(x).detach().requires_grad_())

    assert "gradients" in {each.kind for each in apart(before, after)}


def test_tensors_of_objects_are_changed_in_a_copy():
    record = Record(torch.ones(2), {"a": torch.ones(1)})
    call = Call((record, 3), {"again": record})
    changed = mapped(call, lambda leaf: leaf * 2)
    assert [each.tolist() for each in tensors(changed)] == [[2.0], [2.0, 2.0]]  # slots by name, each object once
    assert changed.args[0] is changed.kwargs["again"]
    assert all((each == 1).all() for each in tensors(call))


def test_second_gradients_that_are_nan_differ():
    def before(self: Any, x: torch.Tensor) -> Any:
        h = self.linear(x)
        return h.norm() if h.abs().max() > 1.0 else h.sum()

    def after(self: Any, x: torch.Tensor) -> Any:
        h = self.linear(x)
        return torch.where(h.abs().max() > 1.0, h.norm(), h.sum())

    found = {each.entry: each for each in apart(before, after, only=("zeros", "gradient penalty at 0"))}
    assert "base, zeros" not in found  # the first gradients are equal there
    assert about(found["base, gradient penalty at 0"]) == "gradient"


def test_what_a_hook_prints_in_the_backward_pass_is_heard():
    def before(self: Any, x: torch.Tensor) -> Any:
        return self.linear(x)

    def after(self: Any, x: torch.Tensor) -> Any:
        h = self.linear(x)
        h.register_hook(lambda _: print("gradient"))
        return h

    assert "printed" in {each.kind for each in apart(before, after)}


def test_a_scenario_that_takes_a_side_of_its_own_is_probed_too():
    def forward(self: Any, x: torch.Tensor, mode: str = "encode") -> Any:
        if mode == "decode":
            x = x * 2
        return self.linear(x)

    ways = {
        "base": Way(lambda: Call((torch.ones(2, 3),), {})),
        "same": Way(lambda: Call((torch.ones(4, 3),), {}), kind=ScenarioKind.GIVEN),
        "decode": Way(lambda: Call((torch.ones(2, 3), "decode"), {}), kind=ScenarioKind.GIVEN),
    }
    line = forward.__code__.co_firstlineno + 2
    # Without probes, and asked afterwards which scenarios get some: to name a probe is to ask for its scenario.
    request = ProofRequest("", probes=(), conditions=(Condition(HERE, line, ""),))
    observer = ModelObserver(Loaded(model(forward), ways), request, train=False)
    assert {each.entry.name for each in observer.observe()} == {*ways}
    assert [name for name, _ in observer._probed_ways()] == ["base", "decode"]
    asked = tuple(f"{name}, negated" for name in ("base", "decode"))
    request = ProofRequest("", probes=asked, seconds=600.0)
    observer = ModelObserver(Loaded(model(forward), ways), request, train=False)
    assert {each.entry.name for each in observer.observe()} == {*ways, *asked}


def test_a_line_that_raises_has_not_run():
    class Named(Plain):
        def choose(self, name: Any) -> None:
            self.shift.data = {"shift": self.shift.data}[name]

        def forward(self, x: torch.Tensor) -> Any:
            return self.linear(x) + self.shift

    line = Condition(HERE, Named.choose.__code__.co_firstlineno + 1, "")
    way = Way(lambda: Call((torch.ones(2, 3),), {}))

    mined = Mined(methods=("choose",), texts=("shift", "other"), files=(HERE,))
    only = tuple(f"base, {each}" for each in known(Named(), mined) if "choose(" in each)
    request = ProofRequest("", probes=only, conditions=(line,), seconds=600.0, mined=mined)
    observer = ModelObserver(Loaded(Named(), {"base": way}), request, train=False)
    list(observer.observe())
    called = {each for each in observer.probed if "choose(" in each}
    ran = set(observer.watch.result()[0].true)
    assert {"base, after choose('shift')", "base, after choose('other')", "base, after choose(2)"} <= called
    assert "base, after choose('shift')" in ran
    assert not {"base, after choose('other')", "base, after choose(2)"} & ran


def test_an_input_that_equals_a_parameter_has_a_distance_of_zero():
    def before(self: Any, x: torch.Tensor) -> Any:
        distance = (x - self.linear.bias).square().sum().sqrt()
        return self.linear(x) / distance if distance > 0.5 else self.linear(x)

    def after(self: Any, x: torch.Tensor) -> Any:
        distance = (x - self.linear.bias).square().sum().sqrt()
        near = distance <= 0.5
        return torch.where(near, self.linear(x), self.linear(x) / torch.where(near, 1.0, distance))

    name = "inputs equal to linear.bias"
    assert {each.entry for each in apart(before, after, only=(name,)) if each.kind == "gradients"} == {f"base, {name}"}


def test_a_part_of_a_model_may_have_another_precision():
    def before(self: Any, x: torch.Tensor) -> Any:
        h = self.linear(x.to(self.linear.weight.dtype))
        return h * 2 if x.sum() > 100 else h

    def after(self: Any, x: torch.Tensor) -> Any:
        h = self.linear(x.to(self.linear.weight.dtype))
        return torch.where(x.sum() > 100, h * 2, h).to(torch.float32)

    name = "linear in bfloat16"
    assert {each.entry for each in apart(before, after, only=(name,))} == {f"base, {name}"}


def test_a_tensor_of_another_object_may_be_in_float64():
    """`Stats(np.array(0.5))` keeps an array's dtype, and no cast of the model reaches it."""
    name = "tensors of other objects in float64"

    def read(self: Any, x: torch.Tensor) -> Any:
        return x.sum() * self.stats.rate.item()

    def kept(self: Any, x: torch.Tensor) -> Any:
        return x.sum() * self.stats.rate.detach().clone().reshape(())

    def kept_in_the_other_dtype(self: Any, x: torch.Tensor) -> Any:
        total = x.sum()
        return total * self.stats.rate.detach().clone().reshape(()).to(total.dtype)

    def made(forward: Any) -> Any:
        net: Any = model(forward)
        net.stats, net.plain = SimpleNamespace(rate=torch.tensor(0.5)), torch.tensor(0.5)
        return net

    def entries(forward: Any) -> Observed:
        ways = {"base": Way(lambda: Call((torch.ones(2, 3),), {}))}
        request = ProofRequest("", probes=(f"base, {name}",), seconds=600.0)
        observer = ModelObserver(Loaded(made(forward), ways), request, train=False)
        return Observed(tuple(each.entry for each in observer.observe()))

    assert {each.entry for each in differences(entries(read), entries(kept))} == {f"base, {name}"}
    assert not differences(entries(read), entries(kept_in_the_other_dtype))
    net = observers(made(read), Mined())[name].prepare(made(read))
    assert net.stats.rate.dtype is torch.float64
    assert net.plain.dtype is net.linear.weight.dtype is torch.float32
    assert name not in observers(model(read), Mined())


SHARED: Any = 0.5
"""A tensor in the test below alone: probes that train it would change it for all tests after them."""


def test_a_tensor_that_the_file_holds_keeps_its_dtype(monkeypatch: pytest.MonkeyPatch):
    """All copies of a model share it, so a cast would last."""
    monkeypatch.setitem(globals(), "SHARED", torch.tensor(0.5))

    def read(self: Any, x: torch.Tensor) -> Any:
        return x * SHARED * self.stats.rate

    net: Any = model(read)
    net.stats = SimpleNamespace(rate=torch.tensor(0.5), shared=[torch.tensor([1.0])])
    made = observers(net, Mined())["tensors of other objects in float64"].prepare(net)
    assert made.stats.rate.dtype is made.stats.shared[0].dtype is torch.float64
    assert SHARED.dtype is torch.float32


def test_a_product_that_is_rounded_in_another_precision_differs_for_some_input():
    """Both results are in float32, and equal for the scenario's rate."""

    def read(self: Any, x: torch.Tensor) -> Any:
        return x + x.sum() * self.stats.rate.item()

    def kept(self: Any, x: torch.Tensor) -> Any:
        return x + x.sum() * self.stats.rate.detach().clone().reshape(())

    def entries(forward: Any) -> Observed:
        net: Any = model(forward)
        net.stats = SimpleNamespace(rate=torch.tensor(0.5))
        only = tuple(f"base, {each}" for each in known(net) if each.startswith(OTHERS_IN_FLOAT64))
        ways = {"base": Way(lambda: Call((torch.tensor([[0.3, 1.7, -0.4]]),), {}))}
        observer = ModelObserver(Loaded(net, ways), ProofRequest("", probes=only, seconds=600.0), train=False)
        return Observed(tuple(each.entry for each in observer.observe()), probes=observer.probed)

    before = entries(read)
    found = {each.entry for each in differences(before, entries(kept))}
    assert any(ON in each for each in found), "other values, too"
    assert found <= {*before.probes}, "not the scenario"


def test_fractions_that_float32_holds_become_others_in_float64():
    net: Any = model(lambda self, x: x)
    prepare = observers(net, Mined())["model in float64 with other fractions"].prepare
    with pytest.raises(TargetError):
        prepare(net)
    net.gain, net.steps, net.limit = 0.5, 3, float("inf")
    assert prepare(net) is net
    assert (net.gain, net.steps, net.limit) == (0.5 * 1.1, 3, float("inf"))


def test_small_and_large_inputs_are_timed_where_a_loop_may_end_at_once():
    ways = {"base": Way(lambda: Call((torch.ones(2, 3),), {}))}
    request = ProofRequest("", probes=("base, small", "base, large"), seconds=600.0, timed=None)
    observer = ModelObserver(Loaded(model(lambda self, x: x * 2), ways), request, train=False)
    assert list(observer.observe())
    assert {name for name, _ in observer.times} == {"base", "base, small", "base, large"}


def test_compiled_calls_run_graphs_of_the_calls_before_them(monkeypatch: pytest.MonkeyPatch):
    def forward(self: Any, x: torch.Tensor) -> Any:
        return x * 2.0

    resets: list[str] = []
    original = torch._dynamo.reset

    def reset() -> None:
        resets.append("reset")
        original()

    monkeypatch.setattr(torch._dynamo, "reset", reset)
    ways = {"base": Way(lambda: Call((torch.tensor([1.0, 2.0, -1.0]),), {}))}
    probes, kept = ("base, negated", "base, zeros"), ("base, ones", "base, small")
    request = ProofRequest("", compiled=True, probes=(*probes, *kept), kept=kept, seconds=600.0)
    observer = ModelObserver(Loaded(model(forward), ways), request, train=False)
    names = {each.entry.name for each in observer.observe()}
    assert names == {"base", *probes, *kept}
    assert len(resets) == 1 + len(probes)


def test_a_mask_with_one_true_element_is_tried():
    found = probes()["last true"](Call((torch.tensor([True, True, False]),), {}))
    assert found.args[0].tolist() == [False, False, True]


@pytest.mark.parametrize("size", [0, 2])
def test_each_op_refuses_several_elements_alike(size: int):
    def text(op: Callable[[torch.Tensor], Any]) -> str:
        with pytest.raises(RuntimeError) as raised:
            op(torch.ones(size))
        return error_text(f"RuntimeError: {raised.value}")

    assert text(lambda x: x.item()) == text(bool) == text(lambda x: x.reshape(()))
    assert text(lambda x: x.reshape(3)) != text(bool)


# Subjects that are no modules


class Head:
    def __init__(self) -> None:
        self.offset = torch.zeros(3)
        self.is_wide = False
        self.rate = 2

    def __call__(self, x: torch.Tensor) -> Any:
        return x * self.rate if self.is_wide else x + self.offset

    def widen(self) -> None:
        self.is_wide = True


def test_an_object_of_a_class_with_call_is_observed_like_a_module():
    found = observers(Head(), Mined(attributes=("is_wide",), chosen=("rate",)))
    expected = {"under autocast", "under no_grad", "all trained", "pickled", "is_wide = True", "after widen()"}
    assert {*expected, "object with rate as a fraction"} <= set(found)
    assert any(each.endswith("offset alone trained") for each in found)
    assert "loaded" not in found
    assert found["object with rate as a fraction"].prepare(Head()).rate == 2.5


def test_a_function_keeps_what_it_shares_with_its_copies():
    found = observers(error_text, Mined())
    assert {"called twice", "under autocast", "under no_grad"} <= set(found)
    assert not {"all trained", "pickled"} & set(found)
    assert not any(each.prepare is not found["called twice"].prepare for each in found.values())
