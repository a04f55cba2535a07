"""Run a target with a change, in a separate process: capture it, or observe it for a proof. No file on disk changes.

A capture is a fork of a process that has imported torch, where that is safe; see `runs/suitable.py`.
"""

import os
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import DecodeError, Struct, ValidationError, json
from msgspec.structs import replace

from ctrace.inspector.errors import CtraceError, telling_line
from ctrace.inspector.facts.outcome import FailurePhase
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.trial import Observed, ProofRequest, Trial
from ctrace.inspector.files.scratch import delete, new_scratch_folder, scratch
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.child import ChildProcess, OutputTail
from ctrace.inspector.runs.fork_client import ForkServer
from ctrace.inspector.runs.launch import NOT_PASSED_ON
from ctrace.inspector.runs.run_capture import capture
from ctrace.inspector.runs.store import Store
from ctrace.inspector.runs.target import ProgramTarget, Resolved

_LEAST_SECONDS = 0.1
"""A run needs a time limit above zero; one that has so little only ends."""
_WAITS = 5
"""A proof may take this many times the processor time of its odd inputs by the clock: others may use the cores."""


class InterruptedTrialError(Exception):
    """Ctrl-C during a trial."""


class FailedTrialError(Exception):
    """The changed target failed; the message says how."""


class Evidence(Struct, frozen=True):
    """A run whose questions were recorded."""

    session: Session
    observed: str
    """What the kernel saw, as JSON; see `runs/answers.py`."""
    folders: tuple[Path, ...]
    """Where ctrace kept what it wrote, which is no question of the program's."""


class SearchBudget:
    """The time that is left."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._ends = None if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float | None:
        """Seconds until the end; None: unlimited."""
        if self._ends is None:
            return None
        return self._ends - time.monotonic()

    @property
    def is_spent(self) -> bool:
        """Whether no time is left."""
        return self.left is not None and self.left <= 0

    def within(self, limit: float | None) -> float | None:
        """Return the time that a run may take: a limit of its own, or what is left; None: unlimited."""
        left = self.left
        if left is None:
            return limit
        if limit is not None:
            left = min(limit, left)
        return max(left, _LEAST_SECONDS)


def new_server() -> ForkServer:
    """Return a server that forks trials; close it at the end."""
    return ForkServer({name: value for name, value in os.environ.items() if name not in NOT_PASSED_ON} | _hashing())


def _hashing() -> dict[str, str]:
    """Return the variable that gives all trials one order of each set of strings.

    Python draws that order for each process. A message that lists such a set, as `transformers` has them, would differ
    between two runs of one program, and nothing about it could be proved.
    """
    return {"PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0")}


class Runner:
    """Runs one target many times. Close it at the end."""

    def __init__(
        self,
        resolved: Resolved,
        options: Options,
        limit: float,
        budget: SearchBudget,
        server: ForkServer | None = None,
        seed: int | None = None,
    ) -> None:
        """Run a target; several runners may share a `server`, and closing one leaves it open.

        All runs start with one seed: `seed`, or that of the first one.
        """
        self._resolved = resolved
        self._options = options
        self._limit = limit
        self._budget = budget
        self._owns_server = server is None
        if server is None:
            self._server = new_server()
        else:
            self._server = server
        self._folder = new_scratch_folder("fix")
        self._number = 0
        self._seed = seed
        self.runs = 0
        """Processes started so far."""
        self.evidence: Evidence | None = None
        """The first observed run, which tries all inputs."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._owns_server:
            self._server.close()
        delete(self._folder)

    @property
    def is_program(self) -> bool:
        """Whether the target is a program, which makes its own calls."""
        return isinstance(self._resolved, ProgramTarget)

    def new_folder(self) -> str:
        """Return a new, empty folder, which is deleted at the end."""
        self._folder.mkdir(exist_ok=True)  # the program may have deleted all temporary files
        return tempfile.mkdtemp(prefix="values-", dir=self._folder)

    def capture(self, trial: Trial, *, through_backend: bool = False, build: bool = False, calls: int = 0) -> Session:
        """Capture the target with a change; by default through Dynamo alone, in two calls of each scenario.

        Raises:
            FailedTrialError: the changed target failed.
            InterruptedTrialError: Ctrl-C.
        """
        is_traced = not (through_backend or build) and not self.is_program
        options = replace(self._options, trace_only=is_traced, build=build, guard_cost=False)
        if trial.dynamic is not None:
            options = replace(options, dynamic=trial.dynamic)
        session = self._run(options, trial, None, calls)
        if session.failure is not None:
            raise FailedTrialError(telling_line(f"{session.failure.type}: {session.failure.message}")[:300])
        return session

    def observe(self, trial: Trial, request: ProofRequest) -> Observed:
        """Observe the calls of the target with a change; `request.result` is set here.

        Raises:
            FailedTrialError: the target could not be observed.
            InterruptedTrialError: Ctrl-C.
        """
        self._number += 1
        result = self._folder / f"observed-{self._number}.json"
        options = self._options
        if not self.is_program:
            options = replace(options, trace_only=True, build=False, guard_cost=False, provoke=True)
        session = self._run(options, trial, replace(request, result=str(result)))
        try:
            return json.decode(result.read_bytes(), type=Observed)
        # The result is written last: without one, the process ended before, by an error or a time limit.
        except OSError:
            failure = session.failure
            why = "the process ended early"
            if failure is not None:
                why = telling_line(f"{failure.type}: {failure.message}")
            raise FailedTrialError(why[:300]) from None
        except (DecodeError, ValidationError) as error:
            raise FailedTrialError(f"the observations cannot be read: {error}") from None

    def _run(self, options: Options, trial: Trial, proof: ProofRequest | None, calls: int = 0) -> Session:
        self.runs += 1
        if proof is None:
            own = self._limit
        else:
            own = max(self._limit, _WAITS * proof.seconds)
        limit = self._budget.within(own) or own
        # The first observation tries all inputs: later ones ask the kernel nothing that it did not.
        child = ChildProcess(
            environment=_hashing(), server=self._server, records_files=proof is not None and self.evidence is None
        )
        output = OutputTail(child)
        with output.listening(), scratch() as folder:
            try:
                session = capture(
                    self._resolved,
                    options,
                    store=Store(folder),
                    timeout=limit,
                    stdout=output.sink,
                    stderr=output.sink,
                    child=child,
                    trial=trial,
                    proof=proof,
                    calls=calls,
                    # The child makes calls for half of the limit: a run that the limit ends reports nothing.
                    seconds=limit / 2 if calls else 0.0,
                    seed=self._seed,
                )
            except CtraceError as error:
                raise FailedTrialError(error.what) from None
        if session.failure is not None and session.failure.phase is FailurePhase.INTERRUPT:
            raise InterruptedTrialError
        # Differences between runs must not be those of random numbers.
        self._seed = session.environment.seed
        if child.records_files:
            self.evidence = Evidence(session, child.observed, (folder, self._folder))
        return session
