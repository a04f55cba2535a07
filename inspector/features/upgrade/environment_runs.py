"""Run models in an environment: what they compile to, what eager returns, and with which packages."""

import math
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING

from msgspec import Struct

from ctrace.inspector.errors import CtraceError
from ctrace.inspector.facts.outcome import FailurePhase
from ctrace.inspector.features.upgrade.upgrade_model import (
    EagerFacts,
    EagerRequest,
    EagerTensor,
    EnvironmentFacts,
    EnvironmentRequest,
    UpgradeChange,
    UpgradeError,
    UpgradeNumber,
)
from ctrace.inspector.processes.boot import Interpreter
from ctrace.inspector.runs.capture_request import CaptureRequest, Options, TorchSetting, TorchSource
from ctrace.inspector.runs.child import ChildProcess
from ctrace.inspector.runs.fork_client import ForkServer
from ctrace.inspector.runs.run_capture import capture
from ctrace.inspector.runs.store import Store
from ctrace.inspector.runs.target import ProgramTarget, Resolved
from ctrace.inspector.runs.tasks import run_task

if TYPE_CHECKING:
    from ctrace.inspector.facts.run_events import Event
    from ctrace.inspector.facts.session import Session

SEED = 0
"""What the generators of random numbers start with in each run."""
WITHHELD = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV")
"""Variables that would mix the packages of two environments."""
_ADDED = {"PYTHONDONTWRITEBYTECODE": "1"}
"""The environment is the user's."""
_CHILD = "ctrace.inspector.features.upgrade.child"
_ENVIRONMENT_SECONDS = 300.0
"""Looking at an environment imports its torch, which takes a minute where no file is cached."""
_TOLERANCES = {"float64": 1e-9, "complex128": 1e-9, "float32": 1e-4, "complex64": 1e-4}
"""By how much of its norm a result may differ between two correct ways to round it; half precision has 8 to 11 bits."""
_HALF = 0.03
"""The relative difference within which results of two releases count as equal in half precision."""


class ModelRun(Struct, frozen=True):
    """One capture of a model in an environment."""

    session: "Session"
    peak: int
    """Peak memory of the process, in bytes; 0: not known."""


class EnvironmentRuns(Struct, frozen=True):
    """Runs in one environment."""

    name: str
    """`before` or `after`."""
    interpreter: Interpreter
    store: Store
    timeout: float | None = None
    observe: "Callable[[Event | None], None]" = lambda _event: None
    output: int | IO[bytes] | None = subprocess.DEVNULL
    server: ForkServer | None = None
    """Forks runs from a process that has imported torch, unless options or packages differ; None: each is a new one."""

    def facts(self) -> EnvironmentFacts:
        """Describe the environment.

        Raises:
            TaskError: its Python or its torch does not work.
        """
        return run_task(
            f"{_CHILD}.environment_task",
            EnvironmentRequest(),
            EnvironmentFacts,
            timeout=_ENVIRONMENT_SECONDS,
            observe=lambda: self.observe(None),
            output=self.output,
            child=self._child(),
        )

    def captured(
        self,
        target: Resolved,
        options: Options,
        *,
        config: tuple[TorchSetting, ...] = (),
        sources: tuple[TorchSource, ...] = (),
        called: str = "",
        first: Sequence[str] = (),
        without: Sequence[str] = (),
        is_new: bool = False,
    ) -> ModelRun:
        """Capture a model.

        Args:
            target: The model.
            options: How to call it.
            config: What to set in torch's configuration.
            sources: What to replace in torch's code.
            called: The file for the names of torch's functions that are called.
            first: Folders whose packages come before those of the environment.
            without: Variables that the process does not get.
            is_new: Whether to run in a new process in any case.

        Raises:
            CtraceError: the target or the environment is wrong.
            KeyboardInterrupt: Ctrl-C, which ended the run.
        """
        # Options must be there before torch is imported, which reads some of them then. A function gets its earlier
        # code after the import in a new process, too, so that a fork does the same.
        may_fork = not (config or called or first or without or is_new)
        child = self._child(first, without, self.server if may_fork else None)
        session = capture(
            target,
            options,
            store=self.store,
            timeout=self.timeout,
            stdout=self.output,
            stderr=self.output,
            observe=self.observe,
            child=child,
            seed=SEED,
            config=config,
            sources=sources,
            called=called,
        )
        if session.failure is not None and session.failure.phase is FailurePhase.INTERRUPT:
            raise KeyboardInterrupt  # the run kept it from this process
        return ModelRun(session, child.peak)

    def eager(self, target: Resolved, options: Options, *, first: Sequence[str] = ()) -> EagerFacts:
        """Call a model in eager; `first` is as in `captured`.

        Raises:
            TaskError: it raises.
        """
        path = None
        if target.path is not None:
            path = str(target.path)
        name = None
        if not isinstance(target, ProgramTarget):
            name = target.name
        request = EagerRequest(CaptureRequest("model", path, target.module, name, (), options, log="", seed=SEED))
        return run_task(
            f"{_CHILD}.eager_task",
            request,
            EagerFacts,
            timeout=self.timeout,
            observe=lambda: self.observe(None),
            output=self.output,
            child=self._child(first, server=None if first else self.server),
            loads=request.capture,
        )

    def _child(
        self, first: Sequence[str] = (), without: Sequence[str] = (), server: ForkServer | None = None
    ) -> ChildProcess:
        python = self.interpreter
        mine = Interpreter(python.executable, (*first, *python.first), python.last)
        return ChildProcess(_ADDED, withheld=(*WITHHELD, *without), interpreter=mine, server=server)


def server_for(interpreter: Interpreter) -> ForkServer:
    """Return a server for runs in an environment; it starts with the first of them."""
    variables = {name: value for name, value in os.environ.items() if name not in WITHHELD}
    return ForkServer({**variables, **_ADDED}, interpreter, lowers=True)


def error_of(run: ModelRun, environment: str) -> UpgradeError | None:
    """Return why a run says nothing about the model; None: it does."""
    failure = run.session.failure
    if failure is None:
        return None
    if failure.type not in failure.message:
        message = f"{failure.type}: {failure.message}"
    else:
        message = failure.message
    where = ""
    if failure.file:
        where = f" (at {failure.file}:{failure.line})"
    return UpgradeError(environment, str(failure.phase), f"{message}{where}")


def refusal_of(error: CtraceError, environment: str, phase: str) -> UpgradeError:
    """Return a refusal as the error of a model."""
    return UpgradeError(environment, phase, error.what)


def eager_changes(before: EagerFacts, after: EagerFacts) -> Iterator[UpgradeChange]:
    """Yield the results of eager calls that differ by more than rounding."""
    olds = {each.scenario: each.tensors for each in before.calls}
    for call in after.calls:
        was = olds.get(call.scenario)
        if was is None:
            continue
        where = f"scenario {call.scenario}"
        if len(was) != len(call.tensors):
            yield UpgradeChange("eager", "changed", where, f"{len(was)} tensors", f"{len(call.tensors)} tensors")
            continue
        for number, (old, new) in enumerate(zip(was, call.tensors, strict=True)):
            if text := _difference(old, new):
                yield UpgradeChange("eager", "changed", f"{where}, result {number}", *text)


def _difference(old: EagerTensor, new: EagerTensor) -> tuple[str, str] | None:
    one, other = (f"{each.dtype}{list(each.sizes)}" for each in (old, new))
    if one != other:
        return one, other
    if old.digest == new.digest or not _differ(old, new):
        return None
    return f"{one}, norm {_short(old.norm)}", f"{other}, norm {_short(new.norm)}"


def _short(number: str) -> str:
    try:
        return f"{float(number):.6g}"
    except ValueError:
        return number


def _differ(old: EagerTensor, new: EagerTensor) -> bool:
    """Whether two results differ by more than two correct ways to round do."""
    # Integers and booleans are not rounded.
    if "float" not in old.dtype and "complex" not in old.dtype:
        return True
    if not old.sample:
        return False
    tolerance = _TOLERANCES.get(old.dtype, _HALF)
    one, other = ([complex(each) for each in side.sample] for side in (old, new))
    finite = [(a, b) for a, b in zip(one, other, strict=True) if _is_finite(a) and _is_finite(b)]
    # NaN or infinity in one release only is no rounding, whatever the rest is.
    if any(_is_finite(a) != _is_finite(b) for a, b in zip(one, other, strict=True)):
        return True
    scale = math.sqrt(sum(abs(a) ** 2 for a, _ in finite))
    apart = math.sqrt(sum(abs(a - b) ** 2 for a, b in finite))
    norms = 0.0
    if math.isfinite(float(old.norm)):
        norms = abs(float(old.norm) - float(new.norm))
    # The sample may miss what differs; the norm is of all elements.
    return apart > tolerance * scale or norms > tolerance * abs(float(old.norm))


def _is_finite(number: complex) -> bool:
    return math.isfinite(number.real) and math.isfinite(number.imag)


_COST_FACTOR = 2.0
"""Guards that cost less than twice as much are within what two runs differ by."""
_COST_MICROSECONDS = 10.0
"""Guards count as slower or faster by this factor and this much: a busy machine changes the cost of cheap ones."""


def guard_cost_changes(before: Sequence["Session"], after: Sequence["Session"]) -> Iterator[UpgradeChange]:
    """Yield the measured cost of all guards of a call, if it differs by far; of several runs, the least cost counts."""
    was, now = ([cost for each in runs if (cost := _guard_cost(each)) is not None] for runs in (before, after))
    if was and now:
        yield from _cost_changes(min(was), min(now))


def _cost_changes(was: float, now: float) -> Iterator[UpgradeChange]:
    low, high = sorted((was, now))
    if high - low > _COST_MICROSECONDS and high > _COST_FACTOR * low:
        yield UpgradeChange("guard cost", "changed", "run", f"{was:.1f} us", f"{now:.1f} us")


def _guard_cost(session: "Session") -> float | None:
    costs = [each.cost.warm for each in session.guards.values() if each.cost is not None]
    if not costs:
        return None
    return sum(costs)


def moved_bytes(run: ModelRun) -> int | None:
    """Return the bytes that all kernels move, in each of their calls; None: not known."""
    launches = [launch for kernel in run.session.kernels for launch in kernel.launches]
    # A sum of the known ones would change with what is known.
    if not launches or any(each.read is None or each.written is None for each in launches):
        return None
    return sum((each.read or 0) + (each.written or 0) for each in launches)


def numbers_of(before: ModelRun, after: ModelRun) -> tuple[UpgradeNumber, ...]:
    """Return the numbers of a model in both environments, in the order of the stages."""
    one, other = _numbers(before), _numbers(after)
    return tuple(UpgradeNumber(name, value, other[name]) for name, value in one.items())


def _numbers(run: ModelRun) -> dict[str, str | None]:
    session = run.session
    cost, moved = _guard_cost(session), moved_bytes(run)
    guards = [each.guards for each in session.compilations if each.guards is not None]
    nodes = [(each.before, each.after) for each in session.fusions]
    coverage = session.coverage
    total = session.time.phases
    found = {
        "verdict": str(session.verdict),
        "ops in eager": _text(coverage.ops),
        "ops compiled": _text(coverage.compiled),
        "graphs": str(len(session.graphs)),
        "breaks": str(len(session.breaks)),
        "skipped": str(len(session.skips)),
        "recompilations": str(len(session.recompiles)),
        "guards": None,
        "guard cost": None,
        "kernels": str(sum(each.calls for each in session.kernels)),
        "bytes moved": None,
        "fused nodes": _fused(nodes),
        "peak memory": None,
        "compile time": None,
        "wrong results": None,
    }
    # Filled in afterwards, at their places in the table: what a run did not measure stays None.
    if guards:
        found["guards"] = str(sum(guards))
    if cost is not None:
        found["guard cost"] = f"{cost:.1f} us"
    if moved is not None:
        found["bytes moved"] = f"{moved:,}"
    if run.peak:
        found["peak memory"] = f"{run.peak / 1e6:,.0f} MB"
    if total:
        found["compile time"] = f"{sum(total.values()):.1f} s"
    if session.compared is not None:
        found["wrong results"] = str(len(session.dangers))
    return found


def _text(number: int | None) -> str | None:
    if number is None:
        return None
    return str(number)


def _fused(nodes: Iterable[tuple[int, int]]) -> str | None:
    pairs = list(nodes)
    if pairs:
        return f"{sum(was for was, _ in pairs)} to {sum(now for _, now in pairs)}"
    return None


def imported_packages(facts: EnvironmentFacts, eager: Mapping[str, str]) -> tuple[str, ...]:
    """Return the packages of which a model loaded modules."""
    loaded = {name.partition(".")[0] for name in eager}
    return tuple(
        name for name, tops in facts.modules.items() if not loaded.isdisjoint(top.removesuffix(".py") for top in tops)
    )
