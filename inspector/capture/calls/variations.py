"""Apply `--vary` to the target's own inputs: one scenario for each value."""

import functools
from collections.abc import Callable
from typing import Any

from ctrace.inspector.capture.calls.call_tensors import mapped, recast, requiring, resized, restrided, tensors
from ctrace.inspector.capture.calls.ways import Call, Way
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.scenario_facts import ScenarioKind
from ctrace.inspector.runs.input_specs import InputChoice, Vary

Make = Callable[[], Call]

_GRAD_NAMES = {"off": "no_grad", "on": "enable_grad", "inference": "inference_mode"}


def varied(base: Make, vary: Vary | InputChoice, kind: ScenarioKind = ScenarioKind.VARY) -> dict[str, Way]:
    """Make a scenario for each value, with a short name: `dim0=8`, `dtype=float64`, `eval`, `no_grad`."""
    if isinstance(vary, Vary):
        return {
            f"dim{vary.dimension}={size}": Way(functools.partial(_resized, base, vary.dimension, size), kind)
            for size in vary.sizes
        }
    return dict(_chosen(base, vary.what, value, kind) for value in vary.values)


def _chosen(base: Make, what: str, value: str, kind: ScenarioKind) -> tuple[str, Way]:
    match what:
        case "mode":
            return value, Way(base, kind, training=value == "train")
        case "grad":
            return _GRAD_NAMES[value], Way(base, kind, grad=value)
    changes: dict[str, Callable[[Any], Any]] = {
        "dtype": functools.partial(recast, dtype=value),
        "stride": functools.partial(restrided, stride=value),
        "requires_grad": functools.partial(requiring, grad=value == "on"),
    }
    name = f"{what}={value}" if what != "stride" else value
    return name, Way(functools.partial(_changed, base, changes[what], f"{what}={value}"), kind)


def _resized(make: Make, dimension: int, size: int) -> Call:
    return resized(make(), dimension, size)


def _changed(make: Make, change: Callable[[Any], Any], what: str) -> Call:
    """Change every input that allows it.

    Raises:
    TargetError: no input changes.
    """
    call = make()
    changed = mapped(call, change)
    if all(old is new for old, new in zip(tensors(call), tensors(changed), strict=True)):
        raise TargetError(f"--vary {what}: this changes no input", "drop it, or use another value")
    return changed
