"""What becomes of Inductor's tuning where nothing is built and run: choices that it would make by timing."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.virtual.tuning import can_be_left_open, left_open

_TUNING = (
    "max_autotune",
    "max_autotune_gemm",
    "max_autotune_pointwise",
    "coordinate_descent_tuning",
    "benchmark_fusion",
)
"""Switches of torch._inductor.config that have choices timed, which only built kernels can be."""
_PROCESSES = ("autotune_in_subproc", "pipeline_max_autotune_gemm", "distributed_max_autotune_gemm")
"""Switches that have candidates built and timed in processes of their own, beside the lowering."""
_SAID = ("max_autotune", "max_autotune_gemm", "max_autotune_pointwise", "coordinate_descent_tuning")


@dataclass(frozen=True, slots=True)
class Tuning:
    """Which switches are off while a graph is compiled, and what is done in place of timing."""

    off: dict[str, bool]
    instead: Callable[[], AbstractContextManager[None]]
    problem: Callable[[], None]
    """Says that tuning was asked for and not done."""

    def allowed(self, patches: dict[str, Any]) -> dict[str, Any]:
        """Give what is left of the settings of one compilation, as `torch.compile` was given them."""
        from torch._inductor import config

        if any(patches.get(name, getattr(config, name, False)) for name in _SAID if name in self.off):
            self.problem()
        return {name: value for name, value in patches.items() if name not in self.off}


def unmeasured(recorder: Recorder) -> Tuning:
    """Tune nothing."""
    what = (
        "autotuning was not measured: choices can only be timed on built kernels (--build); "
        "--target lists the candidates for a GPU"
    )
    return Tuning(_off(_TUNING), nullcontext, lambda: recorder.problem(what))


def listed(recorder: Recorder) -> Tuning:
    """List the candidates of each choice, for a GPU that is presented."""
    if can_be_left_open():
        return Tuning(_off(_PROCESSES), lambda: left_open(recorder), lambda: None)
    what = "the candidates of autotuning could not be listed: this torch chooses between them in another way"
    return Tuning(_off(_TUNING), nullcontext, lambda: recorder.problem(what))


def _off(names: tuple[str, ...]) -> dict[str, bool]:
    from torch._inductor import config

    return {name: False for name in names if hasattr(config, name)}
