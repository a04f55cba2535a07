"""Does a fault of the accuracy study change anything in plain torch? Print the largest error of compiled code as JSON.

Each result and gradient is compared with eager; the error is relative to its largest element.
usage: _accuracy_effect.py forward|backward, with the variables that `_accuracy_models.py` reads
"""

import json
import sys
from typing import Any

import torch
from _accuracy_models import inputs, model
from torch._inductor import config

config.force_disable_caches = True  # a graph from a cache is not lowered, so it has no fault


def results(call: Any, given: tuple[Any, ...], *, is_backward: bool) -> list[Any]:
    """Return what a call gives, and the gradients of parameters."""
    model.zero_grad(set_to_none=True)
    torch.manual_seed(1)
    result = call(*given)
    if not is_backward:
        return [result.detach()]
    result.sum().backward()
    return [result.detach(), *(each.grad.clone() for each in model.parameters() if each.grad is not None)]


def main() -> None:
    is_backward = sys.argv[1] == "backward"
    torch.manual_seed(0)
    given = inputs()
    expected = results(model, given, is_backward=is_backward)
    found = results(torch.compile(model), given, is_backward=is_backward)
    errors = [
        ((one - other).abs().max() / one.abs().max().clamp_min(1e-30)).item()
        for one, other in zip(expected, found, strict=True)
    ]
    print(json.dumps(errors))


main()
