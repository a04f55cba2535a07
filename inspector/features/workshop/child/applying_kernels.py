"""The child process of `ctrace kernels apply`: apply the package, check every value, then time both sides.

With `--place N`, only the chosen occurrences of a region are replaced. Where the region was looked for and did not fit,
the package's own pass says which node differs.

`SideTiming` times the unchanged model against the one with the package, and the kernels that differ.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ctrace.inspector.capture.calls import stopwatch
from ctrace.inspector.capture.calls.answering import answer
from ctrace.inspector.capture.calls.calling import CallResults, called
from ctrace.inspector.capture.calls.model_files import Loaded, load
from ctrace.inspector.capture.calls.timed_rounds import Bench, Compilations, run_rounds, warm_up
from ctrace.inspector.capture.calls.ways import Way, gradients, training
from ctrace.inspector.capture.comparing.compare_results import leaves
from ctrace.inspector.capture.comparing.snapshots import kind_of, taken
from ctrace.inspector.capture.comparing.state_copies import Copier, copied
from ctrace.inspector.capture.core.imports import Preloaded
from ctrace.inspector.capture.core.node_lines import line_of
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.rounds import RoundDone, WarmedUp
from ctrace.inspector.features.workshop.child.elements import finite, first_difference, noise_of
from ctrace.inspector.features.workshop.child.importing import Imported, imported, installed, operators_of
from ctrace.inspector.features.workshop.child.patched_model import (
    CompiledPart,
    CompiledSide,
    new_passes,
    observed,
    settings,
)
from ctrace.inspector.features.workshop.kernel_package import package_at
from ctrace.inspector.features.workshop.package_model import (
    AppliedPackage,
    ApplyRequest,
    Compared,
    ExpectedPlace,
    RegionCheck,
    Times,
)
from ctrace.inspector.findings.ratios import compared
from ctrace.inspector.runs.capture_request import CaptureRequest, Options

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
    state = []
    if isinstance(model, torch.nn.Module):
        state = [*model.parameters(), *model.buffers()]
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
        if options.train:
            self._part = "step"
        else:
            self._part = "forward"
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
            # Copies and fills are events of the GPU, too, but they are no kernels that fusion could save.
            if event.device_type == DeviceType.CUDA and not event.name.startswith(("Memcpy", "Memset")):
                if event.name.startswith("triton_"):
                    # Inductor numbers the kernels of a graph: the same one gets another number once an operator
                    # replaces others.
                    name = _NUMBER.sub("", event.name)
                else:
                    name = event.name
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
    if extra > 0 and times:
        return seconds * extra / times
    return 0.0


def _median(values: list[float]) -> float:
    import statistics

    return statistics.median(values)


def main(loaded: frozenset[str]) -> None:
    """Carry out the request."""
    preloaded = Preloaded(loaded)
    answer(ApplyRequest, lambda request: _applied(request, preloaded))


def _applied(request: ApplyRequest, preloaded: Preloaded) -> AppliedPackage:
    import torch

    # For a graph from its cache, Inductor runs no passes, so none of their rewrites would be seen.
    os.environ.setdefault("TORCHINDUCTOR_FX_GRAPH_CACHE", "0")
    capture = CaptureRequest("model", request.path, request.module, request.name, (), request.options, log="")
    loaded = load(capture, preloaded)
    if request.options.train and isinstance(loaded.model, torch.nn.Module):
        loaded.model.train()
    return _Application(request, loaded).result()


class _Application:
    """Applies one package to one model."""

    def __init__(self, request: ApplyRequest, loaded: Loaded) -> None:
        self._request = request
        self._options = request.options
        self._loaded = loaded
        self._device = device_of(loaded)
        self._unchanged: dict[str, tuple[CallResults, CallResults]] = {}
        """Of each scenario, the results in eager and of the unchanged compile."""

    def result(self) -> AppliedPackage:
        import torch
        from torch._dynamo import pgo

        # Each side has its own weights and buffers: a side that changes them must not change another side's results.
        models = [Copier().copy(self._loaded.model) for _ in range(3)]
        before = settings()
        unchanged = CompiledSide(self._options, before)
        eager, first = models[0], unchanged.compiled(models[1])
        for name, way in self._loaded.scenarios.items():
            self._unchanged[name] = (self._results(eager, way), self._results(first, way))
        packages = [imported(package_at(Path(each))) for each in self._request.folders]
        handles = list(map(installed, packages))
        after = settings()
        passes = [(setting, each) for setting, each in new_passes(before, after)]
        if not passes:
            folders = ", ".join(self._request.folders)
            what = f"install() of {folders} sets none of Inductor's passes: {', '.join(after)}"
            raise TargetError(what, "eject the kernel again into an empty folder")
        names = operators_of(packages)
        with choosing(packages, frozenset(self._request.places)) as choice, observed(passes, packages) as seen:
            # The unchanged side has taught Dynamo which sizes vary. With that, the changed side would never compile the
            # static graph that the model's first call has, and that most packages come from (2.11 to 2.15, pgo.py).
            pgo.reset_code_state()
            changed = CompiledSide(self._options, after, seen, names, unchanged.compiled_of, self._request.seconds)
            second = changed.compiled(models[2])
            compared = tuple(self._compared(name, self._results(second, way))
                             for name, way in self._loaded.scenarios.items())  # fmt: skip
        choice.check()
        places, regions = _places(changed.parts)
        places += choice.left_out
        installs = list(zip(packages, handles, strict=True))
        left = tuple(left_to_inductor(installs, changed.parts, places))
        places += misfits(installs, changed.parts, places)
        is_gpu = self._device == "cuda"
        if is_gpu:
            device = torch.cuda.get_device_name()
        else:
            device = self._device
        found = AppliedPackage(
            device=device,
            is_gpu=is_gpu,
            places=tuple(places),
            regions=tuple(regions),
            compared=tuple(each for pair in compared for each in pair),
            part="step" if self._options.train else "forward",
            notes=(*left, *_notes(packages, changed.parts, places, is_gpu=is_gpu)),
        )
        is_native = found.is_gpu or all(each.is_cpp for each in names.values())
        return self._timed(found, first, second, is_native=is_native)

    def _results(self, model: Any, way: Way) -> CallResults:
        """Call a model once, with the same random numbers for every side."""
        import torch

        # Once for what the inputs draw, and once for what the model draws: dropout must be the same on all sides.
        torch.manual_seed(0)
        call = copied(way.make())
        torch.manual_seed(0)
        with training(model, way):
            found = called(model, call, way, train=self._options.train)[0]
        results = taken(found)
        _spoil(found)
        return results

    def _compared(self, name: str, results: CallResults) -> tuple[Compared, Compared]:
        eager, unchanged = self._unchanged[name]
        noise = {one.path: noise_of(one.eager, one.compiled) for one in leaves(eager, unchanged)}
        by_compiled = _compared(name, "compiled", unchanged, results, noise)
        return by_compiled, _compared(name, "eager", eager, results, noise)

    def _timed(self, found: AppliedPackage, first: Any, second: Any, *, is_native: bool) -> AppliedPackage:
        if not any(each.applied for each in found.places):
            return replace(found, not_measured="the package was applied nowhere")
        if not found.equal:
            return replace(found, not_measured="the results differ, so no time means anything")
        if not self._request.is_timed:
            return replace(found, not_measured="switched off with --no-time")
        if not is_native:
            return replace(found, not_measured="there is no GPU here, so the model ran the operator's CPU code")
        timing = SideTiming(self._loaded, (first, second), self._options, self._device, self._request.rounds)
        model = timing.model()
        kernel, busy = timing.kernels() if found.is_gpu else (None, None)
        why = waiting(model, busy)
        return replace(found, model=model, kernel=kernel, notes=(*found.notes, *([why] if why else [])))


def _notes(
    packages: Sequence[Imported], parts: Sequence[CompiledPart], places: Sequence[ExpectedPlace], *, is_gpu: bool
) -> Iterator[str]:
    """Say what was not checked, and why a package may fit fewer places than expected."""
    for part in parts:
        if part.unchecked:
            yield f"graph {part.graph}: only the model's results were compared: {part.unchecked}"
    for package in packages:
        calls, names = package.package.facts.get("calls"), [each.name for each in package.operators()]
        applied = sum(each.applied for each in places if each.operator in names)
        if isinstance(calls, int) and applied < calls and not any(not each.applied for each in places):
            yield f"The kernel of {package.package.name} was called {calls} times in the run that it came from."
    of_gpu = [each for each in packages if each.package.facts.get("target_gpu")]
    unfit = [each for each in places if not each.applied and "--place" not in each.why]
    if not is_gpu and of_gpu and unfit:
        yield (
            "The kernel comes from a graph for a GPU. Inductor rewrites graphs by device (it splits a bias "
            "from its matmul, and softmax into online steps), so a place may fit on the GPU only."
        )


def _places(parts: list[CompiledPart]) -> tuple[list[ExpectedPlace], list[RegionCheck]]:
    places: list[ExpectedPlace] = []
    regions: list[RegionCheck] = []
    for part in parts:
        for number, rewrite in enumerate(part.rewrites):
            of_calls = zip(rewrite.calls, rewrite.operators, rewrite.lines, rewrite.called, strict=True)
            for name, operator, line, called_for in of_calls:
                check = part.checks.get((number, name))
                if check is not None:
                    regions.append(replace(check, place=len(places)))
                places.append(
                    ExpectedPlace(part.graph, part.stage, line, operator, applied=True, operator_called=called_for)
                )
    return places, regions


def _compared(
    scenario: str, against: str, expected: CallResults, found: CallResults, noise: Mapping[tuple[Any, ...], float]
) -> Compared:
    largest, wrong, note = _largest(expected, found, noise)
    is_equal = wrong is None and not note
    return Compared(scenario, against, is_equal, None if largest is None else finite(largest), wrong, note)


def _largest(
    expected: CallResults, found: CallResults, noise: Mapping[tuple[Any, ...], float]
) -> tuple[float | None, Any, str]:
    """Return the largest relative difference, the first value that differs, and why two results cannot be compared."""
    import torch

    largest, first, note = None, None, ""
    for leaf in leaves(expected, found):
        one, other = leaf.eager, leaf.compiled
        if kind_of(one) != kind_of(other):
            note = note or f"{leaf.name} is {kind_of(one)} on one side and {kind_of(other)} on the other"
        if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
            continue
        if one.shape != other.shape or one.dtype != other.dtype:
            note = note or f"{leaf.name} is {_described(one)} and {_described(other)}"
            continue
        by, element = first_difference(leaf.name, one, other, noise=noise.get(leaf.path, 0.0))
        if largest is None:
            largest = by
        else:
            largest = max(largest, by)
        first = first or element
    return largest, first, note


def _described(tensor: Any) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _spoil(results: CallResults) -> None:
    """Fill freed memory with NaN, so that a kernel that leaves values unwritten does not find the right ones there."""
    import torch
    from torch.utils import _pytree

    sizes = {
        (each.numel(), each.dtype, each.device)
        for each in _pytree.tree_leaves((results.outputs, results.gradients))
        if isinstance(each, torch.Tensor) and each.is_floating_point()
    }
    spoiled = [
        torch.full((length,), float("nan"), dtype=dtype, device=device)
        for length, dtype, device in sizes
        # The allocator may hand out any free block of a size, so one spoiled block could miss the kernel's own.
        for _ in range(4)
    ]
    del spoiled


class OccurrenceChoice(Struct):
    """The occurrences to replace, counted from 1 over all graphs in the order in which they compile; empty: all."""

    wanted: frozenset[int]
    seen: int = 0
    left_out: list[ExpectedPlace] = field(default_factory=list)

    def check(self) -> None:
        """Refuse a number that no place has.

        Raises:
            TargetError: there are fewer places.
        """
        unknown = sorted(number for number in self.wanted if number > self.seen)
        if unknown:
            todo = "the region is nowhere in this model"
            if self.seen:
                todo = f"there are places 1 to {self.seen}"
            raise TargetError(f"--place {unknown[0]}: there is no such place", todo)


@contextmanager
def choosing(packages: list[Imported], wanted: frozenset[int]) -> Iterator[OccurrenceChoice]:
    """Let the packages find only the wanted places in the block."""
    choice = OccurrenceChoice(wanted)
    with ExitStack() as patches:
        if wanted:
            for package in packages:
                module = package.part("place")
                if module is not None and hasattr(module, "find"):
                    patches.enter_context(patched(module, "find", _finding(module.find, package, choice)))
        yield choice


def _finding(original: Callable[..., Any], package: Imported, choice: OccurrenceChoice) -> Callable[..., Any]:
    name = next((each.name for each in package.operators()), "")

    def find(graph: Any) -> Any:
        matches, why = original(graph)
        kept = []
        for match in matches:
            choice.seen += 1
            if choice.seen in choice.wanted:
                kept.append(match)
            else:
                choice.left_out.append(_left_out(match, choice.seen, name))
        return kept, why

    return find


def _left_out(match: Any, number: int, operator: str) -> ExpectedPlace:
    from torch._guards import CompileContext

    nodes = list(getattr(match, "nodes", {}).values())
    line = next((found for node in reversed(nodes) if (found := line_of(node)) is not None), None)
    now = CompileContext.current_compile_id()
    graph = "?"
    if now is not None:
        graph = f"{now.frame_id}/0"
    return ExpectedPlace(graph, "?", line, operator, applied=False, why=f"place {number} was not chosen with --place")


def misfits(
    packages: Sequence[tuple[Imported, Any]], parts: Sequence[CompiledPart], applied: Sequence[ExpectedPlace]
) -> list[ExpectedPlace]:
    """Return, for each package that was applied nowhere, the graphs where it could have been, with the reason.

    The pass that `install()` returns keeps in `found`, for each graph, how many places it replaced, and what differs
    where it replaced none. A graph without the region is no misfit if the region was found in another graph.
    """
    done = {each.operator for each in applied}
    places = []
    for package, handle in packages:
        names = [each.name for each in package.operators()]
        if done.isdisjoint(names):
            places += list(_nowhere(package, handle, parts, ", ".join(names)))
    return places


def left_to_inductor(
    packages: Sequence[tuple[Imported, Any]], parts: Sequence[CompiledPart], places: Sequence[ExpectedPlace]
) -> Iterator[str]:
    """Say which graphs of a function keep the kernel that Inductor made for them, though another graph has the package.

    A function has several graphs if its sizes change; a package is made from one of them.
    """
    for package, handle in packages:
        names = [each.name for each in package.operators()]
        applied = {(_frame(each.graph), each.stage) for each in places if each.applied and each.operator in names}
        for part, (count, why) in zip(parts, _found(handle), strict=False):
            if not count and why and (_frame(part.graph), part.stage) in applied:
                yield f"Graph {part.graph} ({part.stage}) keeps the kernel that Inductor made for it: {why}."


def _frame(graph: str) -> str:
    return graph.partition("/")[0]


def _nowhere(package: Imported, handle: Any, parts: Sequence[CompiledPart], operator: str) -> list[ExpectedPlace]:
    wanted = str(package.package.facts.get("stage"))
    reasons = [(part, why) for part, (count, why) in zip(parts, _found(handle), strict=False) if not count]
    line = _line(package.package.facts.get("lines"))
    # Forward and inference graphs differ only in whether torch trains, so they count as one.
    same = [(part, why) for part, why in reasons if (part.stage == "backward") == (wanted == "backward")]
    return [
        ExpectedPlace(
            part.graph, part.stage, line, operator, applied=False, why=why or "the region is not in this graph"
        )
        for part, why in same or reasons
    ]


def _line(lines: Any) -> str | None:
    """Return the line that the kernel came from, as its package says."""
    if isinstance(lines, list) and lines:
        return str(lines[-1])
    return None


def _found(handle: Any) -> list[tuple[int, str]]:
    found = getattr(handle, "found", ())
    return [(int(each[0]), str(each[1])) for each in found if isinstance(each, list | tuple) and len(each) >= 2]
