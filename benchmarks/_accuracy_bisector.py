"""Ask torch's own bisector what makes a model of the accuracy study wrong, and print its answer as JSON.

usage: _accuracy_bisector.py forward|backward, with the variables that `_accuracy_models.py` reads
"""

import json
import sys
import time
from typing import Any

import torch
from _accuracy_models import inputs, model
from torch._inductor import config
from torch._inductor.compiler_bisector import CompilerBisector

config.force_disable_caches = True  # a graph from a cache has no lowering to leave out
TOLERANCE = 1.3e-6, 1e-5
"""torch.testing's own for float32; the gradients of these models are as large as their results."""


def results(call: Any, given: tuple[Any, ...], *, is_backward: bool) -> list[Any]:
    """Return what a call gives, and the gradients of parameters."""
    model.zero_grad(set_to_none=True)
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
    runs = 0

    def is_right() -> bool:
        nonlocal runs
        runs += 1
        torch._dynamo.reset()
        found = results(torch.compile(model), given, is_backward=is_backward)
        relative, absolute = TOLERANCE
        return all(
            torch.allclose(one, other, rtol=relative, atol=absolute) for one, other in zip(found, expected, strict=True)
        )

    began = time.monotonic()
    answer = CompilerBisector.do_bisect(is_right)
    told = None if answer is None else [answer.backend, answer.subsystem, answer.bisect_number, answer.debug_info]
    print(json.dumps({"answer": told, "runs": runs, "seconds": round(time.monotonic() - began, 1)}))


main()
