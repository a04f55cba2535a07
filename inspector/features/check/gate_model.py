"""The data of a check: jobs, their results, and the lock's baseline. A *job* is one capture: of a model, in one of the
policy's scenarios, for a target (the CPU or a target GPU).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ctrace.inspector.errors import CtraceError
from ctrace.inspector.facts.sites import Known, Site
from ctrace.inspector.features.check.policy_model import CPU, Count, Limits
from ctrace.inspector.runs.capture_request import Options

if TYPE_CHECKING:
    from ctrace.inspector.facts.session import Session

SEED = 0
"""What the generators of random numbers start with in every job: a model that draws its weights or inputs, or a side of
a branch, then has the same counts in every check of the same code."""
TRACE = "trace"
"""The target of a job that ran elsewhere and whose log is checked."""


class JobKey(Struct, frozen=True, order=True):
    """Identifies a capture: the model, the policy's scenario, the target."""

    model: str
    """The name in the policy: a path below the policy's folder, with `/`, optionally with `:name`; or
    `package.module:name`. For a check in a test, the test's node id, such as `tests/test_net.py::test_net`, optionally
    with `#2` or `#name`.
    """
    scenario: str = "base"
    target: str = CPU

    @property
    def is_of_test(self) -> bool:
        """Whether a test runs the job, not `ctrace check`."""
        return "::" in self.model

    @property
    def is_of_policy(self) -> bool:
        """Whether a policy names the model; otherwise the job belongs to a test, or to a log from elsewhere."""
        return not self.is_of_test and self.target != TRACE

    def __str__(self) -> str:
        more = [each for each in (self.scenario, self.target) if each not in ("base", CPU, TRACE)]
        return " · ".join([self.model, *more])


class CheckedState(Struct, frozen=True):
    """What a check compares of a job's results."""

    job: JobKey
    torch: str = ""
    """Minor version, such as 2.13."""
    counts: Mapping[Count, int] = field(default_factory=dict)
    """The measured counts."""
    coverage: float | None = None
    """Percentage of ops in graphs; None if not measured."""
    sites: tuple[Site, ...] = ()
    by_inductor: bool = False
    """Whether guards that Inductor added may have caused a recompilation, in warm-up or after it."""
    not_lowered: int = 0
    """How many graphs with symbolic sizes have no record of Inductor's guards."""
    notes: tuple[str, ...] = ()
    """Notes on the run, such as made-up input values."""


class CheckJob(Struct, frozen=True):
    """One capture of a check."""

    key: JobKey
    target: str
    """What to run, in the form that `ctrace explain` accepts."""
    options: Options
    limits: Limits = field(default_factory=Limits)
    timeout: float = 600.0
    """Seconds."""
    accuracy: bool = False
    """Whether its kernels are compared with eager and float64 after the run."""
    memory: bool = False
    """Whether the memory of a step is followed after the run."""
    known_as: JobKey | None = None
    """The job's key in the lock, if it differs from `key`: all ranks of a job that ran elsewhere share one."""


class FinishedJob(Struct, frozen=True):
    """A job that ran or could not run, with its session or the error."""

    job: CheckJob
    session: "Session | None" = None
    error: CtraceError | None = None
    """Why there is no session: the target, an option or the machine is wrong."""
    seconds: float = 0.0
    run: str | None = None
    """The saved run, for `ctrace breaks RUN`."""
    last_lines: str = ""
    """The last lines of the program's output, if it failed."""
    left: tuple[str, ...] = ()
    """Processes that the program left running and that ctrace killed: `command (pid)`."""
    observed: str = "{}"
    """What the program asked of the system, as JSON (`processes/system_calls.py`); empty if that is not known."""


class Baseline(Struct, frozen=True):
    """The lock's entry for one job."""

    counts: Mapping[Count, int] = field(default_factory=dict)
    sites: tuple[Known, ...] = ()


class Lock(Struct, frozen=True):
    """The results of models when ctrace last wrote the lock, keyed by minor version of torch."""

    sections: Mapping[str, Mapping[JobKey, Baseline]] = field(default_factory=dict)
    file: str | None = None
    """The lock's file; None if there is none."""
