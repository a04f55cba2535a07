"""Time the unchanged model against the one with the package, and the kernels that differ."""

import re
from collections import Counter
from typing import Any

from ctrace.inspector.capture.calls.model_files import Loaded
from ctrace.inspector.capture.calls.ways import gradients
from ctrace.inspector.capture.timing import stopwatch
from ctrace.inspector.capture.timing.compilations import Compilations
from ctrace.inspector.capture.timing.timed_rounds import Bench, run_rounds, warm_up
from ctrace.inspector.facts.rounds import RoundDone, WarmedUp
from ctrace.inspector.features.workshop.kernel_packages.package_model import Times
from ctrace.inspector.findings.ratios import compared
from ctrace.inspector.runs.capture_request import Options

_CALLS = 20
"""Calls under the profiler."""
_BUSY = 0.75
"""A GPU that is busy for less than this share of a call waits for the host."""
_NUMBER = re.compile(r"_\d+$")
"""The number at the end of a generated kernel's name, which shifts when a kernel before it is replaced."""


def device_of(loaded: Loaded) -> str:
    """Return the type of device that the model computes on."""
    import torch
    from torch.utils import _pytree

    call = next(iter(loaded.scenarios.values())).make()
    model = loaded.model
    state = [*model.parameters(), *model.buffers()] if isinstance(model, torch.nn.Module) else []
    found = [
        each for each in (*state, *_pytree.tree_leaves((call.args, call.kwargs))) if isinstance(each, torch.Tensor)
    ]
    return next((each.device.type for each in found if each.device.type not in ("cpu", "meta")), "cpu")


class SideTiming:
    """Times both sides of the first scenario, in alternation."""

    def __init__(
        self, loaded: Loaded, sides: tuple[Any, Any], options: Options, device: str, rounds: int | None
    ) -> None:
        self._loaded = loaded
        self._sides = sides
        self._part = "step" if options.train else "forward"
        self._rounds = rounds
        self._device = device
        self._name, self._way = next(iter(loaded.scenarios.items()))

    def model(self) -> Times | None:
        """Return the medians of a call of each side."""
        seen: list[RoundDone] = []

        def record(event: WarmedUp | RoundDone) -> None:
            if isinstance(event, RoundDone) and event.clean:
                seen.append(event)

        compilations = Compilations()
        bench = Bench(
            scenario=self._name,
            part=self._part,
            sides=self._sides,
            block=stopwatch.PARTS[self._part],
            make=self._way.make,
            fresh=False,
            compilations=compilations,
            record=record,
            device=self._device,
        )
        with compilations.counting(), gradients(self._way):
            for side in (0, 1):
                warm_up(bench, side)
            run_rounds(bench, self._rounds)
        if not seen:
            return None
        before, after = [each.eager for each in seen], [each.compiled for each in seen]
        verdict = compared(before, after).verdict
        return Times(_median(before), _median(after), str(verdict))

    def kernels(self) -> tuple[Times | None, Times | None]:
        """Return the seconds per call of the kernels that only one side runs or runs more often, and of all kernels."""
        before, after = (self._of_side(side) for side in self._sides)
        if before is None or after is None:
            return None, None
        names = {*before, *after}
        gone = sum(_more(before, after, name) for name in names)
        new = sum(_more(after, before, name) for name in names)
        return Times(gone, new) if gone and new else None, Times(_all(before), _all(after))

    def _of_side(self, side: Any) -> dict[str, tuple[int, float]] | None:
        """Return how often each kernel runs in a call, and for how long in all."""
        from torch._C._autograd import DeviceType
        from torch.profiler import ProfilerActivity, profile

        block, wait = stopwatch.PARTS[self._part], stopwatch.synchronizer(self._device)
        call = self._way.make()
        with gradients(self._way):
            with profile(activities=[ProfilerActivity.CUDA]):  # the first profile of a process initializes the profiler
                block(side, [call] * 3, wait)
            with profile(activities=[ProfilerActivity.CUDA]) as profiled:
                block(side, [call] * _CALLS, wait)
        times: Counter[str] = Counter()
        seconds: dict[str, float] = {}
        for event in profiled.events():
            if event.device_type == DeviceType.CUDA and not event.name.startswith(("Memcpy", "Memset")):
                name = _NUMBER.sub("", event.name) if event.name.startswith("triton_") else event.name
                times[name] += 1
                seconds[name] = seconds.get(name, 0.0) + event.device_time_total / 1e6
        if not times:
            return None
        return {name: (round(number / _CALLS), seconds[name] / _CALLS) for name, number in times.items()}


def waiting(model: Times | None, busy: Times | None) -> str:
    """Say that the host limits the model's time, so that a faster kernel may not show in it; empty if it does not."""
    if model is None or busy is None or busy.before >= _BUSY * model.before:
        return ""
    return (
        f"The host limits the model: in a call of {model.before * 1e6:.3g} us, the GPU computes for "
        f"{busy.before * 1e6:.3g} us before and {busy.after * 1e6:.3g} us after. Compare the kernel's times."
    )


def _all(kernels: dict[str, tuple[int, float]]) -> float:
    return sum(seconds for _, seconds in kernels.values())


def _more(one: dict[str, tuple[int, float]], other: dict[str, tuple[int, float]], name: str) -> float:
    """Return the seconds of the runs of a kernel that `one` has beyond those of `other`."""
    times, seconds = one.get(name, (0, 0.0))
    extra = times - other.get(name, (0, 0.0))[0]
    return seconds * extra / times if extra > 0 and times else 0.0


def _median(values: list[float]) -> float:
    import statistics

    return statistics.median(values)
