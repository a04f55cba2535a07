"""Observers that differentiate gradients, as a gradient penalty does.

`torch.where` adds zeros to the gradients of the side that it does not select. The gradient of such a zero may be NaN
where the first one is finite: of a norm at 0, for example. The values of gradients are compared by a backward pass
already, so these compare which second ones exist, and which of their values are finite: no order of a sum changes that.
"""

from collections.abc import Callable
from typing import Any

from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.facts.trial import PENALTY
from ctrace.inspector.features.fix.child.call_values import mapped, tensors, tensors_in
from ctrace.inspector.features.fix.child.observers import Observer


def penalties() -> dict[str, Observer]:
    """Return the observers by name: with the inputs of the scenario, and with zeros, where norms have no gradient."""
    import torch

    return {
        PENALTY: Observer(
            change=lambda call: _requiring(call, lambda leaf: leaf), sequence=_penalized, is_crossed=True
        ),
        f"{PENALTY} at 0": Observer(change=lambda call: _requiring(call, torch.zeros_like), sequence=_penalized),
    }


def _requiring(call: Call, change: Callable[[Any], Any]) -> Call:
    return mapped(call, lambda leaf: change(leaf.detach()).requires_grad_() if leaf.is_floating_point() else leaf)


def _penalized(subject: Any, called: Callable[..., Any], call: Call) -> Any:
    import torch

    outputs = called(*call.args, **call.kwargs)
    results = [each for each in tensors_in(outputs) if each.requires_grad and each.is_floating_point()]
    leaves = [each for each in tensors(call) if each.requires_grad]
    if isinstance(subject, torch.nn.Module):
        leaves += [each for each in subject.parameters() if each.requires_grad]
    if not results or not leaves:
        return outputs
    with torch.enable_grad():
        total = sum(each.square().sum() + each.sum() for each in results)
        first: tuple[Any, ...] = torch.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
        again = [each for each in first if each is not None and each.requires_grad]
        penalty = sum((each.square().sum() for each in again), torch.zeros(()))
        second: tuple[Any, ...] = torch.autograd.grad(penalty, leaves, allow_unused=True) if again else ()
    return outputs, [None if each is None else each.isfinite() for each in (*first, *second)]
