"""Measures what a call of an operator costs on the CPU, against a launch that compiled code makes itself.

    python benchmarks/operator_cost.py

The launch does nothing, so that no GPU is needed: what is left is the way to it. The operator is a `triton_op` with a
gradient, called as compiled code calls it; the other way allocates the output and launches, as Inductor's wrapper does.
Triton's own launcher, which the operator needs on a GPU and Inductor's code does not, is in neither.
"""

import statistics
import timeit
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

CALLS, ROUNDS = 2000, 15


def launch(*_args: object) -> None:
    """Take the place of a kernel's launch."""


@torch.library.triton_op("ctrace_benchmark::copy", mutates_args=())
def copy(x: Tensor) -> Tensor:
    """Allocate and launch."""
    result = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
    launch(x, result, x.numel())
    return result


def differentiate(_ctx: Any, gradient: Tensor) -> Tensor:
    """Return the gradient of a copy."""
    return gradient


copy.register_autograd(differentiate)


def main() -> None:
    """Time both ways in turn."""
    torch.set_num_threads(1)
    x = torch.randn(32, 512)
    operator: Any = torch.ops.ctrace_benchmark.copy.default
    guards: Any = torch._C._dynamo.guards
    allocate = guards._empty_strided_cpu  # what Inductor's wrappers call for the CPU

    def direct() -> Tensor:
        result: Tensor = allocate((32, 512), (512, 1), torch.float32)
        launch(x, result, 16384)
        return result

    ways: dict[str, Callable[[], Tensor]] = {"operator": lambda: operator(x), "direct": direct}
    found: dict[str, list[float]] = {name: [] for name in ways}
    with torch.no_grad():
        for _ in range(ROUNDS):
            for name, way in ways.items():
                found[name].append(timeit.timeit(way, number=CALLS) / CALLS * 1e6)
    for name, times in found.items():
        print(f"{name:9} {statistics.median(times):6.2f} us a call, from {min(times):.2f} to {max(times):.2f}")


if __name__ == "__main__":
    main()
