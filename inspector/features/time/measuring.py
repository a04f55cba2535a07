"""Run the measuring processes one after the other, and read their results while they run."""

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.time.events import Event, Noted, TimingResults
from ctrace.inspector.features.time.timing_fold import Fold
from ctrace.inspector.features.time.timing_model import MeasuredConfiguration
from ctrace.inspector.features.time.timing_request import CompileConfiguration, TimingRequest
from ctrace.inspector.files.scratch import scratch
from ctrace.inspector.files.writing import write_text
from ctrace.inspector.knowledge.versions.installed import check_environment
from ctrace.inspector.processes.boot import python
from ctrace.inspector.runs.capture_request import CaptureRequest, Options
from ctrace.inspector.runs.child import ChildProcess
from ctrace.inspector.runs.target import ModelTarget

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
            place = folder / str(number)
            runner = _Runner(plan, configuration, place, observe, interrupts, (stdout, stderr))
            found = runner.run()
            _refuse(found, is_first=number == 0)
            if plan.warm and found.first is not None and not found.stopped:
                found = replace(found, warm_seconds=runner.warm_seconds())
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
        return None if stopped or fold.failures else fold.compile_seconds()

    def _follow(self, name: str, *, only_compile: bool) -> tuple[Fold, str]:
        request = self._request(name, only_compile=only_compile)
        caches = self._folder / "caches"
        caches.mkdir(parents=True, exist_ok=True)
        file = self._folder / f"{name}.json"
        write_text(file, request.to_json())
        results = TimingResults(Path(request.results))
        results.path.touch()
        fold = Fold(self._configuration)
        deadline = None if self._plan.timeout is None else time.monotonic() + self._plan.timeout
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
        path = None if target.path is None else str(target.path)
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
