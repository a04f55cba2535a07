"""Call a model in every scenario: twice compiled, each time after an eager call to compare with."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from enum import Enum, auto
from os import _exit as end_process
from typing import Any

from msgspec import structs

from ctrace.inspector.capture.calls.call_parts import compiled
from ctrace.inspector.capture.calls.calling import CallResults, CallStoppedError, called
from ctrace.inspector.capture.calls.compiler_names import check_backend, check_mode
from ctrace.inspector.capture.calls.model_files import Loaded
from ctrace.inspector.capture.calls.ways import Call, Way, plan, training
from ctrace.inspector.capture.comparing.dangers import Before, Dangers
from ctrace.inspector.capture.comparing.eager import Around, Eager, EagerError, EagerRun
from ctrace.inspector.capture.comparing.library_state import LibraryState
from ctrace.inspector.capture.comparing.snapshots import ContainerParts
from ctrace.inspector.capture.core.exception_text import message, type_name
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.dynamo import eager_backend as backends
from ctrace.inspector.capture.dynamo.op_counts import OpCounter, OpCounts, describe
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.run_events import CallBegan
from ctrace.inspector.facts.scenario_facts import EagerResult, Outcome, ResultPart, ScenarioDone, ScenarioKind
from ctrace.inspector.processes.forking import WARMED
from ctrace.inspector.runs.capture_request import Options

CALLS = 2
"""The second call shows what recompiles although nothing changed."""
_TIMED = 3
"""Calls that are timed once nothing is compiled any more: the fastest of three is no outlier."""
_LEFT_OUT = "the request left the comparison with eager out"
_NO_VALUES = "without weights, there are no values to compare"


class Order(Enum):
    """Whether the first call of all is an eager one."""

    EAGER_FIRST = auto()
    EAGER_FIRST_IF_EQUAL = auto()
    """Eager first; if that changed what modules of libraries hold, end the process: a new one compiles first."""
    COMPILED_FIRST = auto()
    """Compiled first, beside no eager call; the calls after it are compared."""


def _raised(error: Exception) -> None:
    raise error


def run_scenarios(
    loaded: Loaded,
    options: Options,
    recorder: Recorder,
    ops: OpCounter,
    around_eager: Around = nullcontext,
    *,
    calls: int = CALLS,
    failed: Callable[[Exception], None] = _raised,
    cycle: tuple[int, float] = (0, 0.0),
    order: Order = Order.EAGER_FIRST,
) -> None:
    """Compile the model and call it in each scenario; each eager call runs inside the context `around_eager`.

    A scenario that fails is recorded, and the next one is called. In a provoked scenario, a failure is an answer; in
    any other, `failed` is called with the exception: an EagerError if the model fails without torch.compile, else what
    the compiled model raised. `cycle` is the least number of calls, and the seconds for those that are left then;
    with it, calls are only counted: no result is compared with eager. `order` is the order of the first calls.

    Raises:
        TargetError: torch.compile has no such backend or mode, or there is nothing to train.
        BaseException: what `failed` raises, and any exception of the model that ends a process.
    """
    import torch

    check_backend(options.backend)
    check_mode(options.mode)
    if options.train and isinstance(loaded.model, torch.nn.Module):
        loaded.model.train()
    # Again, as trials may have changed what the model file named.
    recorder.add(plan(loaded.scenarios))
    compares = not cycle[0] and loaded.without_values is None
    runs = _Runs(loaded, options, recorder, ops, around_eager, calls, order, compares=compares)
    for name, way in loaded.scenarios.items():
        with training(loaded.model, way):
            if way.kind is ScenarioKind.PROVOKED:
                runs.try_out(name, way)
            elif (error := runs.call_or_fail(name, way)) is not None:
                failed(error)
    runs.cycle({name: way for name, way in loaded.scenarios.items() if way.kind is not ScenarioKind.PROVOKED}, *cycle)


class _Runs:
    """Calls a model, compiled and in eager."""

    def __init__(
        self,
        loaded: Loaded,
        options: Options,
        recorder: Recorder,
        ops: OpCounter,
        around_eager: Around,
        calls: int,
        order: Order,
        *,
        compares: bool,
    ) -> None:
        model = loaded.model
        self._model = model
        self._options = options
        self._calls = calls
        self._compares = compares
        self._without_values = loaded.without_values
        self._eager_results: dict[str, EagerResult] = {}
        """By scenario, what its first eager call returned."""
        self._stopped: Exception | None = None
        """What stopped the last call, for lack of a value."""
        self._recorder = recorder
        self._ops = ops
        self._order = order
        """The order of the next call, which only matters for the first."""
        self._keeps_libraries = order is Order.COMPILED_FIRST
        """Whether eager calls are known to change what libraries hold, which is then restored after each."""
        self._frames_before_last = 0
        self._outputs: Any = None
        """What the last call returned. A program holds it during the next call, as in `out = model(x)` in a loop, and
        torch records no CUDA graph while results are alive that may still need a backward."""
        self._compiled = compiled(loaded.model, loaded.parts, _compile_arguments(options, recorder))
        keeps = loaded.without_values is None
        eager = Eager(model, recorder, train=options.train, around=around_eager, keeps_results=keeps)
        self._dangers = Dangers(model, eager, recorder, ops, built=options.build)

    def try_out(self, name: str, way: Way) -> None:
        """Call the model in a provoked scenario, where a failure is an answer."""
        try:
            self.call(name, way)
        except EagerError as error:
            self._done(name, way, 0, Outcome.NOT_TAKEN, error.__cause__ or error)
        except TargetError as error:
            self._done(name, way, 0, Outcome.NOT_TAKEN, error)
        except Exception as error:
            self._done(name, way, 1, Outcome.COMPILE_FAILED, error)

    def call_or_fail(self, name: str, way: Way) -> Exception | None:
        """Call the model in a scenario of the user's; return the exception, so that the next scenario still runs."""
        try:
            self.call(name, way)
        # It is wrong for every scenario, such as `--train` without a gradient.
        except TargetError:
            raise
        except EagerError as error:
            self._done(name, way, 0, Outcome.NOT_TAKEN, error.__cause__ or error)
            return error
        except Exception as error:
            self._done(name, way, 1, Outcome.COMPILE_FAILED, error)
            return error
        return None

    def call(self, name: str, way: Way) -> None:
        """Call the model in a scenario, and record its ops, in eager and outside of graphs."""
        in_eager = left = None
        self._stopped = None
        for index in range(self._calls):
            last = index == self._calls - 1
            counted, left = self._once(name, index, way, last=last, counted=in_eager is not None)
            in_eager = counted or in_eager
        if self._stopped is not None:
            self._done(name, way, self._calls, Outcome.UNFINISHED, self._stopped)
            return
        # What a call takes is only compared with what its guards take, part by part.
        is_timed = self._options.guard_cost and self._options.guard_parts
        self._done(name, way, self._calls, seconds=self._timed(way) if is_timed else None)
        if in_eager is not None:
            self._recorder.add(describe(name, in_eager, left))

    def cycle(self, ways: Mapping[str, Way], least: int, seconds: float) -> None:
        """Call the compiled model in one scenario after the other, until there were enough calls or time is out."""
        began, made = time.monotonic(), self._calls * len(ways)
        for index in range(self._calls, least):
            for name, way in ways.items():
                if made >= least or time.monotonic() - began > seconds:
                    return
                self._recorder.add(CallBegan(name, index))
                with training(self._model, way):
                    called(self._compiled, way.make(), way, train=self._options.train)
                made += 1

    def _once(
        self, name: str, index: int, way: Way, *, last: bool, counted: bool
    ) -> tuple[OpCounts | None, OpCounts | None]:
        """Make one compiled call, after an eager one; `counted` says whether the scenario's eager ops are known.

        Both counts are those of the last call: on other inputs, a loop may take more turns.
        """
        # New inputs for each call: the model may have changed the last ones.
        call = _made(way)
        if self._options.caches is not None:  # only compile: calls of eager would warm up what compiling needs
            self._recorder.add(CallBegan(name, index))
            called(self._compiled, call, way, train=self._options.train)
            return None, None
        counts = last or not counted
        counting: Callable[[], AbstractContextManager[OpCounts | None]] = nullcontext
        if counts:
            counting = self._ops.everywhere
        # Only the first call of a process finds libraries untouched.
        order, self._order = self._order, Order.EAGER_FIRST
        before = None
        # Without a comparison, the first eager call only warms up what libraries keep, as elsewhere. Without values, no
        # number of ops depends on them, and an eager call of a large model is slow.
        once = not self._compares and self._without_values is not None
        wanted = self._compares or (not counted if once else counts)
        if self._options.compare and order is not Order.COMPILED_FIRST and wanted:
            is_first = order is Order.EAGER_FIRST_IF_EQUAL
            before = self._called_eagerly(name, index, call, way, counting, is_first=is_first)
            counted = counted or (before is not None and before.counts is not None)
        self._recorder.add(CallBegan(name, index))
        self._frames_before_last = _frames()
        # Count only after the last compilation, because compiling also dispatches ops.
        outside = None
        if last and counted:
            outside = self._ops.outside_graphs()
        results, left = self._called(index, call, way, outside)
        if results is None:
            return None, None
        self._outputs = results.outputs if self._options.build else None
        if before is None and order is Order.COMPILED_FIRST and self._options.compare:
            return None, left  # later calls are compared
        if before is None or not self._compares:
            self._dangers.skip(name, _LEFT_OUT if self._without_values is None else _NO_VALUES)
        else:
            self._dangers.after(before, results)
        return before.counts if before is not None else None, left

    def _called(self, index: int, call: Call, way: Way, counting: Any) -> tuple[CallResults | None, OpCounts | None]:
        """Make the compiled call; return no results if it stopped for lack of a value."""
        if self._without_values is not None:
            self._without_values.call(index)
        try:
            with self._stopping():
                return called(self._compiled, call, way, train=self._options.train, counting=counting)
        except CallStoppedError as stop:
            self._stopped = stop
            return None, None

    def _stopping(self) -> AbstractContextManager[None]:
        if self._without_values is None:
            return nullcontext()
        return self._without_values.stopping()

    def _called_eagerly(
        self, name: str, index: int, call: Call, way: Way, counting: Callable[[], Any], *, is_first: bool
    ) -> Before | None:
        """Make the eager call, and restore what it changed in libraries; a change by the first one ends the process.

        Return None if the call stopped for lack of a value: the compiled call goes as far as its graphs do.
        """
        libraries = None
        if is_first or self._keeps_libraries:
            libraries = LibraryState()
        unrecorded: AbstractContextManager[None] = nullcontext()
        if self._without_values is not None:
            unrecorded = self._without_values.counting()
        try:
            with unrecorded, self._stopping():
                before = self._dangers.before(name, index, call, way, counting)
        except CallStoppedError:
            return None
        if before.eager is not None and self._without_values is None and name not in self._eager_results:
            self._eager_results[name] = result_of(index, before.eager)
        if libraries is not None and self._keeps_libraries:
            self._restore(libraries)
        # What the call has filled cannot be emptied with certainty, so a new process starts with the compiled call.
        elif libraries is not None and libraries.changes():
            end_process(WARMED)
        return before

    def _restore(self, libraries: LibraryState) -> None:
        """Undo what an eager call changed in libraries; what stays may change what is compiled next."""
        if failed := libraries.restore():
            self._recorder.problem(
                f"an eager call changed what {', '.join(failed)} keeps, which cannot be restored: "
                "later calls may compile other code than without eager calls"
            )

    def _timed(self, way: Way) -> float | None:
        """Time more calls until one compiles; return the shortest time, or None if the last call before compiled."""
        times: list[float] = []
        while self._frames_before_last == _frames() and len(times) < _TIMED:
            call = way.make()
            began = time.perf_counter()
            called(self._compiled, call, way, train=False)
            times.append(time.perf_counter() - began)
        return min(times, default=None)

    def _done(
        self,
        name: str,
        way: Way,
        calls: int,
        outcome: Outcome = Outcome.DONE,
        error: BaseException | None = None,
        seconds: float | None = None,
    ) -> None:
        message = ""
        if error is not None:
            message = _kind_and_first_line(error)
        training, unused_grad = _modes(self._model, way, train=self._options.train)
        done = ScenarioDone(
            name=name,
            calls=calls,
            kind=way.kind,
            outcome=outcome,
            message=message,
            compared=self._dangers.compared(name),
            not_compared=self._dangers.not_compared(name),
            call_seconds=seconds,
            training=training,
            unused_grad=unused_grad,
            eager_result=self._eager_results.get(name),
        )
        verdict = self._dangers.verdict(name)
        if verdict is not None:
            done = structs.replace(
                done,
                rule=verdict.rule,
                eager_error=verdict.eager_error,
                compiled_error=verdict.compiled_error,
                no_reference=verdict.no_reference,
            )
        self._recorder.add(done)


def _made(way: Way) -> Call:
    """Make the inputs of a call.

    Raises:
        EagerError: the function that makes them raises, which torch.compile has no part in.
    """
    try:
        return way.make()
    except TargetError:
        raise
    except Exception as error:
        raise EagerError from error


def _modes(model: Any, way: Way, *, train: bool) -> tuple[bool, bool]:
    """Return whether the model is in training mode, and whether calls record gradients that no one requested."""
    import torch

    is_module = isinstance(model, torch.nn.Module)
    enabled = way.grad == "on" or (way.grad is None and torch.is_grad_enabled())
    needed = is_module and any(parameter.requires_grad for parameter in model.parameters())
    return is_module and model.training, enabled and needed and not train


def _frames() -> int:
    """Return the number of frames that Dynamo has been asked to compile so far."""
    from torch._dynamo.utils import counters

    return int(counters["frames"]["total"])


def _kind_and_first_line(error: BaseException) -> str:
    """Return an exception's type and first line."""
    if isinstance(error, TargetError):
        what = error.what
    else:
        what = message(error)
    first = next((line for line in what.splitlines() if line.strip()), "")
    if first:
        text = f"{type_name(error)}: {first.strip()}"
    else:
        text = type_name(error)
    # Dynamo's error says little about the exception that caused it.
    if error.__cause__ is not None:
        return f"{text} ({_kind_and_first_line(error.__cause__)})"
    return text


def _compile_arguments(options: Options, recorder: Recorder) -> dict[str, Any]:
    arguments: dict[str, Any] = {"dynamic": options.dynamic, "fullgraph": options.fullgraph}
    # Without the mode: torch would pass it to our backend as an argument (torch/__init__.py, `_TorchCompileWrapper`,
    # 2.13).
    if options.trace_only:
        return {**arguments, "backend": backends.tracing(options, recorder)}
    if options.mode is not None:
        arguments["mode"] = options.mode
    if options.backend is not None:
        arguments["backend"] = options.backend
    return arguments


def result_of(call: int, run: EagerRun) -> EagerResult:
    """Sum up a call's outputs, inputs and gradients in a few numbers; buffers are left out, as an edit may add one.

    By them, a trial can show that its edit returns the same.
    """
    return EagerResult(call, bool(run.traces.drawn), tuple(_parts(run.results)))


def _parts(results: CallResults) -> Iterator[ResultPart]:
    for value in _leaves(results.outputs):
        yield _part("output", [value])
    yield _part("inputs", list(_leaves(ContainerParts("list", dict(enumerate(results.inputs))))))
    # All gradients are one part: a large model has thousands, and what matters is whether they are the same.
    yield _part("gradients", list(results.gradients))


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the tensors and numbers of a value that was taken apart, in order."""
    import torch

    if isinstance(value, ContainerParts):
        for item in value.items.values():
            yield from _leaves(item)
    elif isinstance(value, torch.Tensor | int | float):
        yield value


def _part(where: str, values: list[Any]) -> ResultPart:
    import torch

    numbers = [0.0, 0.0, 0.0]
    for place, value in enumerate(values, 1):
        if value is None:
            continue
        found = _numbers(value)
        if found is None:
            return ResultPart(where)
        # Weighted by their places, so that two that changed places are not the same.
        numbers = [total + place * one for total, one in zip(numbers, found, strict=True)]
    is_number = len(values) == 1 and not isinstance(values[0], torch.Tensor)
    return ResultPart(where, tuple(f"{each:.9g}" for each in numbers), is_number)


def _numbers(value: Any) -> tuple[float, float, float] | None:
    """Return sum, norm and the sum of every other element; None: they cannot be computed."""
    import torch

    if not isinstance(value, torch.Tensor):
        return float(value), abs(float(value)), float(value)
    is_plain = value.layout is torch.strided and not (value.is_nested or value.is_quantized or value.is_meta)
    if not is_plain or type(value) not in (torch.Tensor, torch.nn.Parameter):
        return None
    with torch.no_grad():
        if value.is_complex():
            real = torch.view_as_real(value.resolve_conj())
        else:
            real = value
        # Eight bits have no sums of their own, and integers no norm.
        if real.is_floating_point() and real.element_size() > 1:
            exact = real
        else:
            exact = real.to(torch.float64)
        flat = exact.detach().reshape(-1)
        total, half = (part.sum(dtype=torch.float64) for part in (flat, flat[::2]))
        return float(total), float(torch.linalg.vector_norm(flat, dtype=torch.float64)), float(half)
