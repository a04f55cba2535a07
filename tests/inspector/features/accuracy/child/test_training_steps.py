"""Training side by side: what is wrong by itself parts, what only grows does not, and what is missing is two lines."""

import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from ctrace.inspector.capture.calls.ways import Call, Way
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.accuracy_facts import TrainingStep
from ctrace.inspector.features.accuracy.child.training_steps import (
    Loss,
    SideBySide,
    StepsTrained,
    optimizer_of,
    parted_by,
)
from ctrace.inspector.runs.tasks import TaskError


def file(**offered: Any) -> Any:
    return types.SimpleNamespace(**offered)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm, self.last = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1)
        self.seen: Any
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            self.seen += x.mean(0)
        return self.last(torch.tanh(self.norm(self.first(x))))


def trained(
    model: Any, compiled: Callable[[Any], Any], count: int, rerun: Any = lambda _step, _call: False, **offered: Any
) -> StepsTrained:
    way = Way(lambda: Call((torch.randn(6, 4),), {}))
    return SideBySide(model, compiled, way, file(**offered)).trained(count, rerun)


def test_runs_of_the_same_code_do_not_part() -> None:
    model = Model()
    found = trained(model, model, 3)
    assert [(each.step, each.parted, each.apart_compiled) for each in found.steps] == [
        (step, False, 0.0) for step in (1, 2, 3)
    ]
    last = found.steps[-1]
    assert last.loss_eager == last.loss_compiled
    assert last.loss_float64 == pytest.approx(last.loss_eager, rel=1e-5)
    assert last.gradient_norm_eager == last.gradient_norm_compiled != 0
    assert found.undecided == {}
    assert found.summary is not None
    assert found.summary.optimizer.startswith("AdamW(lr=0.001)")


def test_the_first_step_that_is_wrong_is_named_with_its_parameter_and_called_again() -> None:
    model = Model()
    calls = []

    def compiled(x: Any) -> Any:
        calls.append(1)
        y = model(x)
        return y if len(calls) < 3 else y + 0.01 * model.first.weight[1, 2]

    again = []

    def rerun(step: int, call: Callable[[], None]) -> bool:
        again.append(step)
        call()
        return False

    found = trained(model, compiled, 4, rerun)
    assert [each.parted for each in found.steps] == [False, False, True, True]
    assert found.steps[2].parameter is not None
    assert (found.steps[2].error or 0) > 10 * (found.steps[2].eager_error or 0)
    assert again == [3]
    assert found.runs == 5
    assert found.summary is not None
    assert found.summary.parted_by == "compiler"


def test_a_wrong_buffer_is_named_and_judged_before_the_next_step() -> None:
    model = Model()

    def compiled(x: Any) -> Any:
        y = model(x)
        with torch.no_grad():
            model.seen.mul_(1.01)
        return y

    found = trained(model, compiled, 2)
    assert [(each.parted, each.parameter) for each in found.steps] == [(True, "seen")] * 2


def test_the_state_of_the_compiled_run_goes_on_as_if_it_were_not_judged() -> None:
    model, alone = Model(), Model()
    alone.load_state_dict(model.state_dict())
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.1)
    for step in (1, 2, 3):
        torch.manual_seed(20 + step)
        x = torch.randn(6, 4)
        optimizer.zero_grad()
        alone(x).square().mean().backward()
        optimizer.step()
    trained(model, model, 3, optimizer=lambda own: torch.optim.SGD(own.parameters(), lr=0.1))
    for (name, one), other in zip(model.state_dict().items(), alone.state_dict().values(), strict=True):
        assert torch.equal(one, other), name


class Chaotic(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        for _ in range(10):
            x = torch.sin(3 * self.layer(x))
        return x


def test_chaos_is_no_fault() -> None:
    model = Chaotic()

    def otherwise(x: Any) -> Any:
        for _ in range(10):
            weight, bias = model.layer.weight, model.layer.bias
            x = torch.sin(3 * (bias + sum(weight[:, at] * x[:, at : at + 1] for at in range(4))))
        return x

    found = trained(model, otherwise, 6, optimizer=lambda own: torch.optim.SGD(own.parameters(), lr=0.05))
    assert not any(each.parted for each in found.steps)
    assert found.summary is not None
    assert found.summary.parted_by == "chaos"


def test_a_nan_that_only_the_optimizer_makes() -> None:
    model = Model()
    found = trained(model, model, 3, optimizer=lambda own: torch.optim.SGD(own.parameters(), lr=float("inf")))
    assert found.nonfinite is not None
    assert (found.nonfinite.op, found.nonfinite.step) == ("the step of SGD", 1)
    assert found.nonfinite.in_eager
    assert (
        found.undecided["training steps 2 to 3", "the parameters are NaN or infinite by then, in eager as well"] is None
    )


def test_a_nan_of_the_loss_function() -> None:
    model = Model()
    found = trained(model, model, 1, loss=lambda output: (output.mean() * 0).sqrt().log())
    assert found.nonfinite is not None
    assert (found.nonfinite.op, found.nonfinite.stage) == ("the loss function", "")


def test_a_model_that_differs_in_eager_is_not_compared() -> None:
    model = Model()
    noise = iter(range(100))
    model.first.register_forward_hook(lambda _module, _args, output: output + next(noise))
    found = trained(model, model, 2)
    assert found.steps == []
    assert list(found.undecided) == [("the training steps", "two eager steps differ, with one seed")]


@pytest.mark.parametrize(
    ("outputs", "value", "name"),
    [
        ({"loss": 2.0, "logits": 3.0}, 2.0, "`loss` of the model's result"),
        ((3.0, [1.0, 2.0]), 3.0, "the scalar that the model returns"),
        ([1.0, 3.0], 5.0, "the mean square"),
    ],
)
def test_the_loss_is_what_the_model_offers(outputs: Any, value: float, name: str) -> None:
    def tensors(each: Any) -> Any:
        if isinstance(each, dict):
            return {key: tensors(one) for key, one in each.items()}
        if isinstance(each, tuple):
            return tuple(map(tensors, each))
        return torch.tensor(each, requires_grad=True)

    loss = Loss(file())
    assert loss.of(tensors(outputs), Call((), {})).item() == value
    assert loss.name.startswith(name)


def test_the_loss_of_the_file_may_take_the_arguments_too() -> None:
    output, target = torch.ones(3, requires_grad=True), torch.zeros(3)
    of_two = Loss(file(loss=lambda output, target: (output - target).sum()))
    assert of_two.of(output, Call((target,), {})).item() == 3
    of_one = Loss(file(loss=lambda output: output.sum() * 2))
    assert of_one.of(output, Call((target,), {})).item() == 6


def test_no_loss_is_two_lines() -> None:
    with pytest.raises(TargetError, match="no result of the model requires a gradient"):
        Loss(file()).of(torch.ones(2), Call((), {}))
    with pytest.raises(TargetError, match="`loss` of the file returns no scalar"):
        Loss(file(loss=lambda _output: None)).of(torch.ones(2, requires_grad=True), Call((), {}))


def test_the_optimizer_is_what_the_file_offers() -> None:
    model = Model()
    own = torch.optim.SGD(model.parameters(), lr=1.0)
    assert optimizer_of(file(optimizer=own), model) == (own, "`optimizer` of the file (SGD)")
    found, name = optimizer_of(file(optimizer=lambda model: torch.optim.Adagrad(model.parameters())), model)
    assert (type(found), name) == (torch.optim.Adagrad, "`optimizer` of the file (Adagrad)")


@pytest.mark.parametrize(
    ("model", "offered", "says"),
    [
        (torch.sin, None, "no parameters to train"),
        (torch.nn.ReLU(), None, "no parameters to train"),
        (Model(), 3, "optimizer of the file is a int"),
        (Model(), torch.optim.SGD(Model().parameters()), "parameters that are not the model's"),
    ],
)
def test_an_optimizer_that_does_not_fit_is_two_lines(model: Any, offered: Any, says: str) -> None:
    with pytest.raises(TargetError, match=says):
        optimizer_of(file(optimizer=offered), model)


def test_an_optimizer_that_raises_is_the_files_fault() -> None:
    class Broken(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            raise ValueError("no momentum today")

    model = Model()
    with pytest.raises(TaskError, match="the step of Broken raises ValueError: no momentum today"):
        trained(model, model, 1, optimizer=lambda own: Broken(own.parameters()))
    with pytest.raises(TaskError, match=r"optimizer\(model\) of the file raises ZeroDivisionError"):
        optimizer_of(file(optimizer=lambda _model: 1 / 0), model)


STEP = TrainingStep(1, 1.0, 1.0, parted=False, parameter=None, apart_compiled=1e-6, apart_one_bit=1e-8)


@pytest.mark.parametrize(
    ("compiled", "bit", "parted", "by"),
    [
        (1e-5, 1e-7, False, "rounding"),
        (1e-2, 1e-2, False, "chaos"),
        (1e-2, 1e-5, False, "rounding"),
        (1e-2, 1e-2, True, "compiler"),
        (None, None, False, "rounding"),
    ],
)
def test_what_makes_runs_part(compiled: float | None, bit: float | None, parted: bool, by: str) -> None:
    last = replace(STEP, step=9, apart_compiled=compiled, apart_one_bit=bit, parted=parted)
    assert parted_by([STEP, last]) == by
