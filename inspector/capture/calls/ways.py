"""Ways to call a model: its arguments, and the modes that are set around the call."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from msgspec import Struct

from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.run_events import Planned, PlannedScenario
from ctrace.inspector.facts.scenario_facts import ScenarioKind


class Call(Struct, frozen=True):
    """Arguments of one call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Way(Struct, frozen=True):
    """One way to call a model."""

    make: Callable[[], Call]
    """Makes the arguments, new ones for each call."""
    kind: ScenarioKind = ScenarioKind.GIVEN
    training: bool | None = None
    """Whether to put the model in training mode (True) or evaluation mode (False); None leaves the mode unchanged."""
    grad: str | None = None
    """`off`, `on` or `inference`; None leaves the gradient mode unchanged."""

    def backward(self) -> bool:
        """Whether the call can record gradients for a backward pass."""
        return self.grad in (None, "on")


def plan(ways: Mapping[str, Way]) -> Planned:
    """Return the names of all scenarios, in order."""
    return Planned(tuple(PlannedScenario(name, way.kind) for name, way in ways.items()))


def gradients(way: Way) -> AbstractContextManager[Any]:
    """Set the gradient mode for a call."""
    import torch

    modes = {"off": torch.no_grad, "on": torch.enable_grad, "inference": torch.inference_mode}
    if way.grad is None:
        return nullcontext()
    # Made for each call, because such a context can be entered only once at a time.
    mode: AbstractContextManager[Any] = modes[way.grad]()
    return mode


@contextmanager
def training(model: Any, way: Way) -> Iterator[None]:
    """Put a model and its submodules in training or evaluation mode, and restore each at the end.

    Raises:
    TargetError: the model is not an nn.Module, so it has no modes.
    """
    import torch

    if way.training is None:
        yield
        return
    if not isinstance(model, torch.nn.Module):
        raise TargetError("--vary mode=...: the model is not an nn.Module", "a function has no train and eval modes")
    # Each module by itself: a program may have frozen some, such as batch norms in evaluation mode.
    before = [(module, module.training) for module in model.modules()]
    # Through the model's own method, which may leave some of its modules as they are.
    model.train(way.training)
    try:
        yield
    finally:
        for module, was in before:
            # Past `train`, which would set all modules below this one, too.
            module.training = was
