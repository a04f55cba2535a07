"""The measuring process: load the model, time each part of each scenario, and append the results to a file.

Compare the results of a compiled call with those in eager, as one number.
"""

import math
import os
import platform
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from ctrace.inspector.capture.calls import stopwatch
from ctrace.inspector.capture.calls.answering import place_of_failure
from ctrace.inspector.capture.calls.call_tensors import tensors
from ctrace.inspector.capture.calls.calling import called
from ctrace.inspector.capture.calls.compiler_names import check_backend
from ctrace.inspector.capture.calls.model_files import Loaded, load
from ctrace.inspector.capture.calls.timed_rounds import Bench, Compilations, run_rounds, warm_up
from ctrace.inspector.capture.calls.ways import Way, gradients, training
from ctrace.inspector.capture.comparing.compare_results import leaves
from ctrace.inspector.capture.comparing.snapshots import taken
from ctrace.inspector.capture.comparing.state_copies import copied
from ctrace.inspector.capture.core.callers import without_our_frames
from ctrace.inspector.capture.core.exception_text import NO_MESSAGE, message, traceback_text, type_name
from ctrace.inspector.capture.core.imports import Preloaded
from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.time.child.compiling import (
    Skips,
    autotuning_recorded,
    check_configuration,
    compiled,
    outcome,
    peak_of,
)
from ctrace.inspector.features.time.child.shares import shares_of
from ctrace.inspector.features.time.events import Differed, Done, Event, Failed, Noted, Peaks, Setup, line_of
from ctrace.inspector.features.time.timing_model import TimingRequest

RANDOM = "two eager calls differ, too"


def differed(bench: Bench, way: Way, *, train: bool) -> Differed:
    """Call eager twice and compiled once, each with copies of the same inputs, and compare outputs and gradients.

    The model keeps its state between the calls: if it changes that state, two eager calls differ, too.
    """
    original, results = bench.make(), []
    for side in (0, 0, 1):
        try:
            call = copied(original)
        except Exception as error:  # an argument's `__deepcopy__` may raise anything
            return Differed(bench.scenario, None, f"the inputs cannot be copied: {type_name(error)}")
        results.append(taken(called(bench.sides[side], call, way, train=train)[0]))
    eager, second, compiled = results
    noise, difference = _largest(eager, second), _largest(eager, compiled)
    if math.isinf(difference or 0.0):
        return Differed(bench.scenario, None, "the results differ in shape")
    if noise is None or difference is None:
        return Differed(bench.scenario, None, "the results contain no floating-point values to compare")
    if noise > 1e-4:
        return Differed(bench.scenario, None, RANDOM)
    return Differed(bench.scenario, difference)


def _largest(one: Any, other: Any) -> float | None:
    """Return the largest difference of two results, relative to the largest value of the same tensor."""
    import torch

    found: list[float] = []
    for leaf in leaves(one, other):
        first, second = leaf.eager, leaf.compiled
        if leaf.group == "inputs" or not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
            continue
        if first.shape != second.shape:
            return math.inf
        if first.numel() and (first.is_floating_point() or first.is_complex()):
            found.append(_relative(first, second))
    return max(found, default=None)


def _relative(first: Any, second: Any) -> float:
    import torch

    wide = torch.complex128 if first.is_complex() else torch.float64
    first, second = first.detach().to("cpu", wide), second.detach().to("cpu", wide)
    gap = torch.nan_to_num((first - second).abs(), nan=0.0 if torch.equal(first.isnan(), second.isnan()) else 1e30)
    largest = float(torch.nan_to_num(first.abs(), nan=0.0, posinf=0.0).max())
    return float(gap.max()) / (largest or 1.0)


_TODO = {
    "load": "First make it work in plain Python: the import, the model and its inputs.",
    "eager": "First make this call work without torch.compile.",
}


def main(loaded: frozenset[str]) -> None:
    """Carry out the request in the file named by the first argument."""
    preloaded = Preloaded(loaded)
    request = TimingRequest.from_file(Path(sys.argv[1]))
    file = os.open(request.results, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    process = os.getpid()

    def record(event: Event) -> None:
        if os.getpid() == process:  # not in a fork that the model makes
            os.write(file, line_of(event))

    model = _within("load", record, None, lambda: _loaded(request, preloaded))
    if model is None:
        sys.exit(1)
    _Timing(request, model, record).run()
    record(Done())


def _loaded(request: TimingRequest, preloaded: Preloaded) -> Loaded:
    for each in (request.configuration, *request.known):
        check_configuration(each)
    loaded = load(request.capture, preloaded)
    for each in (request.configuration, *request.known):
        check_backend(each.backend, option="backend")
    import torch

    if request.threads is not None:
        torch.set_num_threads(request.threads)
    if request.capture.options.train and isinstance(loaded.model, torch.nn.Module):
        loaded.model.train()
    return loaded


class _Timing:
    """Times every part of every scenario with one compiled model, as a program would use it."""

    def __init__(self, request: TimingRequest, loaded: Loaded, record: Callable[[Event], None]) -> None:
        self._request = request
        self._record = record
        self._loaded = loaded
        self._options = request.capture.options
        self._parts = ("step", "forward", "backward") if self._options.train else ("forward",)
        self._parts = self._parts[:1] if request.brief else self._parts
        self._compilations = Compilations()
        self._skips = Skips()
        self._is_set_up = False
        self._device = "cpu"
        self._mutating: set[str] = set()
        self._sides = (loaded.model, compiled(loaded.model, self._options, request.configuration))

    def run(self) -> None:
        """Time all scenarios; one that fails is recorded, and the next one is timed."""
        with ExitStack() as active:
            active.enter_context(self._compilations.counting())
            active.enter_context(autotuning_recorded(self._record))
            active.enter_context(self._skips.recording())  # slows down no timed call: torch decides while compiling
            for name, way in self._loaded.scenarios.items():
                if _within("eager", self._record, name, partial(self._try_eager, name, way)):
                    _within("run", self._record, name, partial(self._scenario, name, way))
                if self._request.brief:
                    break
            self._record(outcome(self._request.configuration, self._compilations, self._skips, self._device))

    def _try_eager(self, name: str, way: Way) -> bool:
        """Call the model once without torch.compile; note whether it changes inputs, compiles or records gradients."""
        import torch

        call = way.make()
        before, compiled = [_version(tensor) for tensor in tensors(call)], self._compilations.total
        with training(self._loaded.model, way), gradients(way):
            outputs = self._loaded.model(*call.args, **call.kwargs)
            records_gradients = torch.is_grad_enabled() and _requires_gradients(outputs)
        if not self._is_set_up:
            self._is_set_up = True
            self._device = _device(self._loaded.model, call.args, call.kwargs, outputs)
            self._record(self._setup())
        if [_version(tensor) for tensor in tensors(call)] != before:
            self._mutating.add(name)
            self._record(Noted(name, "mutates_inputs"))
        if self._compilations.total > compiled:
            self._record(Noted(name, "compiles_itself"))
        if records_gradients and not self._options.train:
            self._record(Noted(name, "unused_gradients"))
        return True

    def _setup(self) -> Setup:
        import torch

        name = torch.cuda.get_device_name() if self._device == "cuda" else self._device
        return Setup(
            torch=str(torch.__version__),
            python=platform.python_version(),
            device=name,
            threads=torch.get_num_threads(),
            cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
            scenarios=tuple(self._loaded.scenarios),
            parts=self._parts,
        )

    def _scenario(self, name: str, way: Way) -> None:
        with training(self._loaded.model, way), gradients(way):
            benches = []
            for part in self._parts if way.backward() else ("forward",):
                bench = self._bench(name, way, part)
                benches.append(bench)
                for side in (0, 1):
                    warm_up(bench, side, only_compile=self._request.only_compile)
                if self._request.only_compile:
                    return
                run_rounds(bench, self._request.rounds)
            if self._request.brief:
                return
            for bench in benches:
                self._record(Peaks(name, bench.part, peak_of(bench, 0), peak_of(bench, 1)))
            for side in (0, 1):
                self._record(shares_of(benches[0], side))
            self._record(differed(benches[0], way, train=self._options.train))

    def _bench(self, name: str, way: Way, part: str) -> Bench:
        return Bench(
            scenario=name,
            part=part,
            sides=self._sides,
            block=stopwatch.PARTS[part] if self._options.train else stopwatch.TimedLoop(),
            make=way.make,
            fresh=self._request.fresh or name in self._mutating,
            compilations=self._compilations,
            record=self._record,
            device=self._device,
        )


def _version(tensor: Any) -> int | None:
    """Return how often a tensor was written to, or None for an inference tensor, which does not count writes."""
    if tensor.is_inference():
        return None
    return int(tensor._version)


def _device(model: Any, *values: Any) -> str:
    """Return the type of device that a call uses: that of the first tensor that is not on the CPU."""
    import torch
    from torch.utils import _pytree

    state = [*model.parameters(), *model.buffers()] if isinstance(model, torch.nn.Module) else []
    leaves = [leaf for leaf in (*state, *_pytree.tree_leaves(values)) if isinstance(leaf, torch.Tensor)]
    return next((leaf.device.type for leaf in leaves if leaf.device.type not in ("cpu", "meta")), "cpu")


def _requires_gradients(outputs: Any) -> bool:
    import torch
    from torch.utils import _pytree

    return any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in _pytree.tree_leaves(outputs))


def _within(phase: str, record: Callable[[Event], None], scenario: str | None, work: Callable[[], Any]) -> Any:
    """Do the work and return its result; if it raises, record that and return None."""
    try:
        return work()
    except TargetError as error:
        record(Failed("target", "TargetError", error.what, scenario, todo=error.todo))
    except SystemExit as error:
        what = f"the model file ended the process with sys.exit: {error.code}"
        file, line = place_of_failure(error) or (None, None)
        record(
            Failed(
                phase,
                "SystemExit",
                what,
                scenario,
                file,
                line,
                "A model file must not end the process: remove that call.",
            )
        )
    except Exception as error:
        file, line = place_of_failure(error) or (None, None)
        record(
            Failed(phase, type_name(error), message(error) or NO_MESSAGE, scenario, file, line, _TODO.get(phase, ""))
        )
        if scenario is None or phase == "eager":
            trimmed = without_our_frames(error.__traceback__)
            print(traceback_text(error, trimmed), end="", file=sys.stderr, flush=True)
    return None
