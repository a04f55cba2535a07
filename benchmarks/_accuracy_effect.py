"""Run a model of the accuracy study in plain torch, eager and compiled, with the fault that the environment names.

Print the largest error of each result and gradient of compiled code, relative to its largest element, as JSON.
usage: _accuracy_effect.py forward|backward, with the variables that `_accuracy_models.py` reads
"""

import json
import sys
from typing import Any

import torch
from torch._inductor import config

torch.manual_seed(20_011)  # of the command, which has the same weights, inputs and dropout then

from _accuracy_models import inputs, model  # noqa: E402

config.force_disable_caches = True  # a graph from a cache is not lowered, so it has no fault
config.fallback_random = True  # dropout drops what it drops in eager


class PlainRun:
    """The results of a model in eager, and of compiled calls on the same inputs."""

    def __init__(self, stage: str) -> None:
        self._is_backward = stage == "backward"
        inputs()  # the command's first ones only show that they fit
        self._inputs = inputs()
        self.eager = self._results(model)

    def compiled(self) -> list[Any]:
        """Compile the model from the start, and return its result and gradients."""
        torch._dynamo.reset()
        return self._results(torch.compile(model))

    def _results(self, call: Any) -> list[Any]:
        model.zero_grad(set_to_none=True)
        torch.manual_seed(20)  # of dropout
        result = call(*self._inputs)
        if not self._is_backward:
            return [result.detach()]
        result.sum().backward()
        return [result.detach(), *(each.grad.clone() for each in model.parameters() if each.grad is not None)]


def main() -> None:
    run = PlainRun(sys.argv[1])
    errors = [
        ((one - other).abs().max() / one.abs().max().clamp_min(1e-30)).item()
        for one, other in zip(run.eager, run.compiled(), strict=True)
    ]
    print(json.dumps(errors))


if __name__ == "__main__":
    main()
