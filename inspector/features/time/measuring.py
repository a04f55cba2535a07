"""Run the measuring processes one after the other, and read their results while they run (`measured`).

`Fold` combines the events of a process into its measurements. `with_speed` compares compiled with eager once after a
`--build` run, with few rounds, for one line of its report.
"""

import os
import shutil
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from ctrace.inspector.errors import CtraceError, TargetError
from ctrace.inspector.facts.compile_time import Speed
from ctrace.inspector.facts.rounds import RoundDone, WarmedUp
from ctrace.inspector.features.time.events import (
    AutotuningPrinted,
    Compiled,
    Differed,
    Event,
    Failed,
    Noted,
    Peaks,
    Setup,
    SharesMeasured,
    TimingResults,
)
from ctrace.inspector.features.time.timing_model import (
    CompileConfiguration,
    MeasuredConfiguration,
    TimedPart,
    TimingRequest,
    configurations,
)
from ctrace.inspector.files.scratch import scratch
from ctrace.inspector.files.writing import write_text
from ctrace.inspector.findings.ratios import compared, has_trend, interval_of
from ctrace.inspector.knowledge.releases import check_environment
from ctrace.inspector.processes.boot import python
from ctrace.inspector.runs.capture_request import CaptureRequest, Options
from ctrace.inspector.runs.child import ChildProcess
from ctrace.inspector.runs.saving import Adds
from ctrace.inspector.runs.target import ModelTarget, Resolved

if TYPE_CHECKING:
    from ctrace.inspector.facts.session import Session


_LAST = 3
"""How many of the last warm-up calls to use; their median is the time of a call."""


class Fold(Struct):
    """Collect the events of one process."""

    configuration: CompileConfiguration
    setup: Setup | None = None
    compiled: Compiled | None = None
    is_done: bool = False
    warm_ups: list[WarmedUp] = field(default_factory=list)
    rounds: dict[tuple[str, str], list[RoundDone]] = field(default_factory=dict)
    peaks: dict[tuple[str, str], Peaks] = field(default_factory=dict)
    shares: list[SharesMeasured] = field(default_factory=list)
    differences: list[Differed] = field(default_factory=list)
    notes: list[Noted] = field(default_factory=list)
    failures: list[Failed] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)

    def add(self, event: Event) -> None:  # noqa: C901 - one case an event
        """Add one event."""
        match event:
            case Setup():
                self.setup = event
            case WarmedUp():
                self.warm_ups.append(event)
                # A part whose rounds all compiled something is listed, too.
                self.rounds.setdefault((event.scenario, event.part), [])
            case RoundDone():
                self.rounds.setdefault((event.scenario, event.part), []).append(event)
            case Peaks():
                self.peaks[event.scenario, event.part] = event
            case SharesMeasured():
                self.shares.append(event)
            case Differed():
                self.differences.append(event)
            case Compiled():
                self.compiled = event
            case Noted():
                self.notes.append(event)
            case Failed():
                self.failures.append(event)
            case AutotuningPrinted(text=text):
                self.printed.append(text)
            case _:
                self.is_done = True

    def measured(self, *, stopped: str = "", load: float | None = None) -> MeasuredConfiguration:
        """Return what has been measured so far."""
        parts = tuple(self._part(scenario, part) for scenario, part in self.rounds)
        return MeasuredConfiguration(
            configuration=self.configuration,
            setup=self.setup,
            parts=parts,
            shares=tuple(self.shares),
            differences=tuple(self.differences),
            compiled=self.compiled,
            notes=tuple(self.notes),
            failures=tuple(self.failures),
            printed=tuple(self.printed),
            compile_seconds=self.compile_seconds(),
            stopped=stopped,
            load=load,
        )

    def compile_seconds(self) -> float | None:
        """Return how much longer the compiled model's first calls take than later ones."""
        # Of the first scenario alone: later ones run graphs that it has compiled.
        scenario = next((each.scenario for each in self.warm_ups), None)
        first = [each for each in self.warm_ups if each.scenario == scenario and each.side == "compiled"]
        if first:
            return sum(map(_beyond, first))
        return None

    def _part(self, scenario: str, part: str) -> TimedPart:
        rounds = self.rounds[scenario, part]
        clean = [each for each in rounds if each.clean]
        eager, compiled = [each.eager for each in clean], [each.compiled for each in clean]
        found = TimedPart(
            scenario=scenario,
            part=part,
            eager=None,
            compiled=None,
            speedup=None,
            eager_peak=None,
            compiled_peak=None,
            warm_ups=tuple(each for each in self.warm_ups if (each.scenario, each.part) == (scenario, part)),
            unclean=len(rounds) - len(clean),
            drifts=has_trend(eager),
        )
        if clean:
            speedup = compared(eager, compiled)
            found = replace(found, eager=interval_of(eager), compiled=interval_of(compiled), speedup=speedup)
        if (peaks := self.peaks.get((scenario, part))) is not None:
            # The peak does not include a replayed CUDA graph's memory, which was reserved when the graph was recorded.
            is_replayed = self.compiled is not None and self.compiled.recordings > 0
            compiled_peak = None
            if not is_replayed:
                compiled_peak = peaks.compiled
            found = replace(found, eager_peak=peaks.eager, compiled_peak=compiled_peak)
        return found


def _beyond(warm_up: WarmedUp) -> float:
    """Return how many seconds longer all calls up to the last one that compiled take than as many later calls."""
    if not warm_up.compiled:
        return 0.0
    later = statistics.median(warm_up.seconds[-_LAST:])
    return sum(max(each - later, 0.0) for each in warm_up.seconds[: max(warm_up.compiled) + 1])


# Chosen: how late a measurement appears on the screen; the measured process is not disturbed by reading its file.
_POLL_SECONDS = 0.1
_MODULE = "ctrace.inspector.features.time.child.timing_main"
INTERRUPTED = "interrupted"
Observe = Callable[[CompileConfiguration, Event | None], None]


class Plan(Struct, frozen=True):
    """Which target and configurations to measure, and how."""

    target: ModelTarget
    options: Options
    configurations: tuple[CompileConfiguration, ...]
    rounds: int | None = None
    threads: int | None = None
    fresh: bool = False
    warm: bool = False
    """Whether a second process measures the compile time with the caches that the first process filled."""
    timeout: float | None = None
    """The time limit for each process, in seconds."""
    brief: bool = False
    """Whether to compare only one part of one scenario, and to build kernels where an earlier run has built them."""


def measured(
    plan: Plan, observe: Observe, *, stdout: int | IO[bytes] | None = 2, stderr: int | IO[bytes] | None = 2
) -> Iterator[MeasuredConfiguration]:
    """Measure each configuration in its own process; yield the results in order, and stop after Ctrl-C.

    Raises:
        TargetError: the target cannot be loaded, or torch does not support a configuration.
        SetupError: there is no supported torch, or the system cannot start a process.
    """
    check_environment()
    # Use empty caches, to measure the compile time of a first run and to leave the user's caches unchanged.
    with (
        scratch() as folder,
        _interrupts() as interrupts,
    ):
        for number, configuration in enumerate(plan.configurations):
            # Each has its own caches, or the second would find what the first one compiled.
            place = folder / str(number)
            runner = _Runner(plan, configuration, place, observe, interrupts, (stdout, stderr))
            found = runner.run()
            _refuse(found, is_first=number == 0)
            if plan.warm and found.first is not None and not found.stopped:
                found = replace(found, warm_seconds=runner.warm_seconds())
            # Now, not at the end: caches of a large model take gigabytes.
            shutil.rmtree(place, ignore_errors=True)
            yield found
            if interrupts:
                return


def _refuse(found: MeasuredConfiguration, *, is_first: bool) -> None:
    """Report a wrong target or configuration that the first process found.

    Raises:
        TargetError: the process could not load the target or a configuration.
    """
    wrong = next((each for each in found.failures if each.phase == "target" and each.scenario is None), None)
    # The first process checks the names of all configurations.
    if wrong is not None and is_first:
        raise TargetError(wrong.message, wrong.todo)


class _Runner:
    """Run the processes of one configuration."""

    def __init__(
        self,
        plan: Plan,
        configuration: CompileConfiguration,
        folder: Path,
        observe: Observe,
        interrupts: list[int],
        streams: tuple[int | IO[bytes] | None, int | IO[bytes] | None],
    ) -> None:
        self._plan = plan
        self._configuration = configuration
        self._folder = folder
        self._observe = observe
        self._interrupts = interrupts
        self._streams = streams

    def run(self) -> MeasuredConfiguration:
        """Run the measuring process, and return its measurements."""
        load = _load()  # before the measuring process adds to the load
        fold, stopped = self._follow("measured", only_compile=False)
        return fold.measured(stopped=stopped, load=load)

    def warm_seconds(self) -> float | None:
        """Return the compile time with filled caches; None if the process failed."""
        fold, stopped = self._follow("warm", only_compile=True)
        if stopped or fold.failures:
            return None
        return fold.compile_seconds()

    def _follow(self, name: str, *, only_compile: bool) -> tuple[Fold, str]:
        request = self._request(name, only_compile=only_compile)
        caches = self._folder / "caches"
        caches.mkdir(parents=True, exist_ok=True)
        file = self._folder / f"{name}.json"
        write_text(file, request.to_json())
        results = TimingResults(Path(request.results))
        # Reading begins before the process writes its first event.
        results.path.touch()
        fold = Fold(self._configuration)
        deadline = None
        if self._plan.timeout is not None:
            deadline = time.monotonic() + self._plan.timeout
        environment = {
            "TORCHINDUCTOR_CACHE_DIR": str(caches),
            "TRITON_CACHE_DIR": str(caches / "triton"),
            "KINETO_LOG_LEVEL": "99",  # otherwise the profiler's library logs each start
        }
        inherited = dict(os.environ)
        if self._plan.brief:
            environment = _of_build(environment)
            inherited = {name: value for name, value in inherited.items() if name not in _TORCH_LOGS}
        child = ChildProcess(environment)
        stopped = ""
        with child.running(python(_MODULE, str(file)), inherited, *self._streams):
            while (status := child.status()) is None and not stopped:
                self._read(results, fold)
                time.sleep(_POLL_SECONDS)
                stopped = self._stopped(deadline)
        # Once more: it may have written between the last look and its end.
        self._read(results, fold)
        if results.damaged:
            fold.add(Noted("", "damaged", str(results.damaged)))
        if not stopped and not fold.is_done and not fold.failures:
            stopped = _exit_reason(status or 0)
        return fold, stopped

    def _read(self, results: TimingResults, fold: Fold) -> None:
        self._observe(self._configuration, None)
        for event in results.new():
            fold.add(event)
            self._observe(self._configuration, event)

    def _stopped(self, deadline: float | None) -> str:
        if self._interrupts:
            return INTERRUPTED
        if deadline is not None and time.monotonic() > deadline:
            return f"timed out after {self._plan.timeout:g} s"
        return ""

    def _request(self, name: str, *, only_compile: bool) -> TimingRequest:
        plan, target = self._plan, self._plan.target
        path = None
        if target.path is not None:
            path = str(target.path)
        return TimingRequest(
            capture=CaptureRequest("model", path, target.module, target.name, (), plan.options, log=""),
            configuration=self._configuration,
            results=str(self._folder / f"{name}.jsonl"),
            known=plan.configurations,
            rounds=plan.rounds,
            threads=plan.threads,
            fresh=plan.fresh,
            only_compile=only_compile,
            brief=plan.brief,
        )


_TORCH_LOGS = ("TORCH_LOGS", "TORCH_LOGS_OUT", "TORCH_TRACE")
"""What the user asks torch to log is about the run, not about a measurement after it."""


def _of_build(environment: dict[str, str]) -> dict[str, str]:
    """Return the environment of a `--build` run: the user's folder of built kernels, and no cache of graphs."""
    kept = {name: value for name, value in environment.items() if not name.endswith("_CACHE_DIR")}
    return {**kept, "TORCHINDUCTOR_FX_GRAPH_CACHE": "0", "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Record interrupts (Ctrl-C) during the block instead of raising them."""
    found: list[int] = []
    # A shell starts jobs in the background with SIGINT ignored, which has to stay so.
    if signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None):
        yield found
        return
    before = signal.signal(signal.SIGINT, lambda number, _frame: found.append(number))
    try:
        yield found
    finally:
        signal.signal(signal.SIGINT, before)


def _exit_reason(status: int) -> str:
    """Describe why a process ended before it finished its measurements."""
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        memory = "; the system does that when it runs out of memory" if -status == signal.SIGKILL else ""
        return f"crashed with {name}{memory}"
    return f"the model file ended the process, with exit code {status}"


def _load() -> float | None:
    """Return the machine's load average over the last minute; None: not known."""
    try:
        return os.getloadavg()[0]
    except (OSError, AttributeError):
        return None


_ROUNDS = 9
"""The fewest odd number of rounds whose interval has 99% confidence."""
# Chosen: twice the compile time of the run and a minute for the start, but never more than five minutes.
_LEAST_SECONDS = 60.0
_MOST_SECONDS = 300.0
"""The longest that a measurement may take unasked."""


def with_speed(
    resolved: Resolved, options: Options, say: Callable[[str], None]
) -> "Callable[[Session, Adds], Session]":
    """Return a function that measures a model after its run, and adds the result to the log and the session."""

    def then(session: "Session", add: Adds) -> "Session":
        began = time.monotonic()
        say("comparing with eager")
        found = replace(_speed(session, resolved, options), cost=time.monotonic() - began)
        add(found)
        return replace(session, speed=found)

    return then


def _speed(session: "Session", resolved: Resolved, options: Options) -> Speed:
    if not isinstance(resolved, ModelTarget):
        return Speed(why="a program calls torch.compile itself; name the model in it")
    if session.failure is not None or session.cut_off:
        return Speed(why="the run did not finish")
    if not session.graphs:
        return Speed(why="nothing was compiled")
    limit = min(_LEAST_SECONDS + 2 * (session.time.total or 0.0), _MOST_SECONDS)
    try:
        chosen = configurations(None, None, (), mode=options.mode, backend=options.backend)
        # The measuring process builds kernels in any case, and makes only the calls of the model.
        plain = replace(options, build=False, provoke=False)
        plan = Plan(resolved, plain, chosen, rounds=_ROUNDS, timeout=limit, brief=True)
        devnull = subprocess.DEVNULL
        found = next(iter(measured(plan, lambda _configuration, _event: None, stdout=devnull, stderr=devnull)))
    except CtraceError as error:
        return Speed(why=error.what)
    return speed_of(found)


def speed_of(found: MeasuredConfiguration) -> Speed:
    """Return the comparison of a measurement; or why there is none."""
    part = found.first
    if part is None or part.speedup is None or part.eager is None or part.compiled is None:
        return Speed(why=_why_not(found))
    ratio = part.speedup.ratio
    return Speed(
        verdict=str(part.speedup.verdict),
        scenario=part.scenario,
        part=part.part,
        eager=part.eager.median,
        compiled=part.compiled.median,
        ratio=ratio.median,
        low=ratio.low,
        high=ratio.high,
        rounds=ratio.rounds,
    )


def _why_not(found: MeasuredConfiguration) -> str:
    if found.failures:
        failure = found.failures[0]
        first = next((line for line in failure.message.splitlines() if line.strip()), "")
        side = {"eager": "eager", "run": "the compiled model"}.get(failure.phase, "the model file")
        return f"{side} failed: {failure.type}: {first}"
    if found.stopped:
        return f"the measurement was stopped: {found.stopped}"
    if any(part.unclean for part in found.parts):
        return "each round compiled something"
    return "no round was measured"
