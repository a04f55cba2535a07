"""Run the jobs of a check: in parallel as far as memory allows, each in a child process that may crash alone
(`run_jobs`); or on a worker of a Ray cluster, as the command that started the check would (`run_here`).
"""

import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from ctrace.inspector.errors import CtraceError
from ctrace.inspector.features.check.check_model import SEED, CheckJob, FinishedJob, SeenJob
from ctrace.inspector.features.check.trust import reduced
from ctrace.inspector.processes import machine
from ctrace.inspector.runs.capture_request import CORES
from ctrace.inspector.runs.child import ChildProcess, OutputTail, cannot_start
from ctrace.inspector.runs.fork_client import ForkServer
from ctrace.inspector.runs.options import check_options
from ctrace.inspector.runs.run_capture import capture
from ctrace.inspector.runs.saving import Adds
from ctrace.inspector.runs.store import Store
from ctrace.inspector.runs.target import Resolved, resolve

if TYPE_CHECKING:
    from ctrace.inspector.facts.session import Session


GUESS = 1 << 30
"""The estimate, in bytes, until one job has finished; a process with torch and a small model needs half of it."""


class MemoryBudget:
    """Decides which job fits into a memory budget, in bytes; estimates each job's memory from finished jobs."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._of_model: dict[str, int] = {}

    def fitting(self, waiting: Iterable[CheckJob], running: Sequence[tuple[CheckJob, int]]) -> CheckJob | None:
        """Return the first waiting job that fits beside the running ones; if none is running, any job fits."""
        # Otherwise a job that needs more than the budget would never start.
        if not running:
            return next(iter(waiting), None)
        in_use = sum(max(self._need(job), held) for job, held in running)
        return next((job for job in waiting if in_use + self._need(job) <= self._budget), None)

    def learn(self, job: CheckJob, peak: int) -> None:
        """Record the peak memory of a finished job; ignore 0, which means not measured."""
        model = job.key.model
        if peak:
            self._of_model[model] = max(peak, self._of_model.get(model, 0))

    def _need(self, job: CheckJob) -> int:
        """Estimate a job's memory from jobs of the same model, else from the median of all models."""
        known = self._of_model.get(job.key.model)
        if known is not None:
            return known
        if self._of_model:
            return int(median(self._of_model.values()))
        return GUESS


STARTED = "started"
ENDED = "ended"
"""The first and last event that `observe` gets about a job."""
_SHARE = 0.8
"""The share of the free memory that a check may use."""
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# Chosen: a worker ends at once unless the user's program holds it; then it is killed.
_ENDING_SECONDS = 2.0


class Captures(Protocol):
    """Runs one job; see `capture` in `runs/run_capture.py`."""

    def __call__(self, *args: Any, **kwargs: Any) -> "Session":
        """Run a target and return its Session."""
        ...


After = Callable[[CheckJob, Resolved, ChildProcess], "Callable[[Session, Adds], Session] | None"]


def run_jobs(
    jobs: Iterable[CheckJob],
    *,
    store: Store,
    at_a_time: int | None = None,
    memory: int | None = None,
    owned: tuple[str, ...] = (),
    observe: Callable[[CheckJob, str], None] = lambda _job, _what: None,
    captures: Captures = capture,
    after: After = lambda _job, _resolved, _child: None,
    forks: bool = True,
) -> Iterator[FinishedJob]:
    """Run jobs and yield each when it ends: at most `at_a_time` in parallel, by default the number of cores.

    By estimate, parallel jobs must fit into `memory` bytes, by default most of the free memory; one job always runs.
    `after` returns what is to be found out after a job's run (see `then` of `capture`), in the thread of the job.
    `observe` runs in the consumer's thread. If the consumer stops or is interrupted, all jobs are killed.

    With `forks`, jobs that only capture graphs are forks of one process that has imported torch; the others, and all of
    them without `forks`, are new processes.
    """
    waiting = deque(jobs)
    cores = machine.cores()
    most = min(at_a_time or cores, max(len(waiting), 1))
    room = MemoryBudget(int(machine.memory() * _SHARE) if memory is None else memory)
    roomy = store.keeping(store.keep + len(waiting))  # a check must not prune its own runs
    share = cores // most
    environment = _threads(share, cores)
    server = None
    # For one job, importing torch in a server first saves nothing.
    if forks and len(waiting) > 1:
        server = ForkServer({**os.environ, **environment})
    crew = _Crew(roomy, owned, environment, _cores(share, cores), captures, after, server, preloads=forks)
    try:
        while waiting or crew.running:
            while waiting and len(crew.running) < most and (job := room.fitting(waiting, crew.memory())) is not None:
                waiting.remove(job)
                crew.start(job)
                observe(job, STARTED)
            ran, peak = crew.next_ended()
            room.learn(ran.job, peak)
            observe(ran.job, ENDED)
            yield ran
    finally:
        crew.end()


def _threads(share: int, cores: int) -> dict[str, str]:
    """Limit each child to its share of the cores, unless the user set a limit."""
    if share >= cores:
        return {}
    # What the user has set is meant for this machine.
    return {name: str(max(share, 1)) for name in _THREADS if name not in os.environ}


def _cores(share: int, cores: int) -> int | None:
    if share >= cores or CORES in os.environ:
        return None
    return max(share, 1)


class _Running(Struct, frozen=True, eq=False):
    """A running job."""

    job: CheckJob
    child: ChildProcess
    thread: threading.Thread


class _Broke(Struct, frozen=True):
    """A bug in ctrace that raised in a job's thread, for the main thread to raise again."""

    error: BaseException


class _Crew:
    """One thread for each running job; results come through a queue."""

    def __init__(
        self,
        store: Store,
        owned: tuple[str, ...],
        environment: dict[str, str],
        cores: int | None,
        captures: Captures,
        after: After,
        server: ForkServer | None,
        *,
        preloads: bool,
    ) -> None:
        self._preloads = preloads
        self.running: list[_Running] = []
        self._server = server
        self._store = store
        self._owned = owned
        self._environment = environment
        self._cores = cores
        self._captures = captures
        self._after = after
        self._ended: queue.SimpleQueue[FinishedJob | _Broke] = queue.SimpleQueue()

    def start(self, job: CheckJob) -> None:
        child = ChildProcess(
            self._environment, self._cores, records_files=True, preloads=self._preloads, server=self._server
        )
        thread = threading.Thread(target=self._work, args=(job, child), daemon=True)
        self.running.append(_Running(job, child, thread))
        try:
            thread.start()
        except RuntimeError as error:  # ulimit -u
            self._ended.put(FinishedJob(job, None, cannot_start(error)))

    def next_ended(self) -> tuple[FinishedJob, int]:
        """Wait for a job to end; return it with its peak memory, or with 0 if that was not measured."""
        match self._ended.get():
            case _Broke(error):
                raise error
            case ran:
                job = next(each for each in self.running if each.job is ran.job)
                self.running.remove(job)
                return ran, job.child.peak

    def memory(self) -> list[tuple[CheckJob, int]]:
        """Return the running jobs with their peak memory so far."""
        return [(each.job, each.child.peak) for each in self.running]

    def end(self) -> None:
        """Kill the running jobs, and wait until they are gone."""
        # All are killed before any is waited for, so that they end at the same time.
        for each in self.running:
            each.child.end()
        deadline = time.monotonic() + _ENDING_SECONDS
        for each in self.running:
            if each.thread.is_alive():
                each.thread.join(max(deadline - time.monotonic(), 0.0))
        if self._server is not None:
            self._server.close()

    def _work(self, job: CheckJob, child: ChildProcess) -> None:
        try:
            self._ended.put(self._run(job, child))
        # Python only prints what a thread raises, and the main thread would wait forever.
        except BaseException as error:
            self._ended.put(_Broke(error))

    def _run(self, job: CheckJob, child: ChildProcess) -> FinishedJob:
        began = time.monotonic()
        session, wrong = None, None
        try:
            output = OutputTail(child)
        except OSError as error:
            return FinishedJob(job, None, cannot_start(error))
        try:
            with output.listening():
                session = self._capture(job, child, output)
        except CtraceError as error:
            wrong = error
        failed = session is None or session.failure is not None
        run = None
        if child.run is not None and session is not None:
            run = child.run.name
        last_lines = ""
        if failed:
            last_lines = output.last_lines()
        return FinishedJob(job, session, wrong, time.monotonic() - began, run, last_lines, child.left, child.observed)

    def _capture(self, job: CheckJob, child: ChildProcess, output: OutputTail) -> "Session":
        resolved = resolve(job.target, has_inputs=bool(job.options.inputs))
        check_options(resolved, job.options)
        return self._captures(
            resolved,
            job.options,
            store=self._store,
            timeout=job.timeout,
            stdout=output.sink,
            stderr=output.sink,
            owned=self._owned,
            child=child,
            seed=SEED,
            then=self._after(job, resolved, child),
        )


_PREFIXES = ("TORCH", "PYTORCH", "TRITON", "CTRACE", "PYTHON", "MKL", "INDUCTOR")
"""Variables that change what a model compiles to. Those that name devices are the worker's own."""


class Surroundings(Struct, frozen=True):
    """What a job needs of the process that started the check; a worker sees the same folders."""

    folder: str
    """The working directory."""
    root: Path
    runs: Path
    owned: tuple[str, ...]
    variables: dict[str, str]
    keep: int
    """How many runs stay: the check's own, and as many older ones as always."""


class Remote(Struct, frozen=True):
    """What a check keeps of a job that ran on a worker."""

    seen: SeenJob
    left: tuple[str, ...]
    """Processes that the program left running and that ctrace killed."""


def surroundings(root: Path, store: Store, owned: tuple[str, ...], jobs: int) -> Surroundings:
    """Return those of this process, for a check of so many jobs."""
    variables = {name: value for name, value in os.environ.items() if name.startswith(_PREFIXES)}
    return Surroundings(str(Path.cwd()), root.absolute(), store.root.absolute(), owned, variables, store.keep + jobs)


def run_here(job: CheckJob, at: Surroundings) -> Remote:
    """Run one job in a child process of this worker, whose tasks come one after the other.

    Raises:
        OSError: the worker does not have the folder.
    """
    # Paths in jobs are relative to the folder of the command.
    os.chdir(at.folder)
    os.environ.update(at.variables)
    (ran,) = run_jobs([job], store=Store(at.runs, at.keep), at_a_time=1, owned=at.owned, forks=False)
    return Remote(reduced(ran, at.root), ran.left)
