"""The data of a check: its jobs, what was found of each, the lock's baseline, and the result (`CheckOutcome`).

A *job* is one capture: of a model, in one of the policy's scenarios, for a target (the CPU or a target GPU). A result
has findings on single jobs and on the whole check, each with its exit code.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ctrace.inspector.errors import CtraceError, Exit
from ctrace.inspector.facts.diagnosis import SuggestedRepair
from ctrace.inspector.facts.sites import Known, Site
from ctrace.inspector.features.check.policy_model import CPU, Allow, CheckPolicy, Count, Limits
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
        # Most jobs have these, so they say nothing.
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


class FindingKind(StrEnum):
    """The kinds of findings. The values are also names in JSON and rule ids in SARIF."""

    NEW_SITE = "new-site"
    """A break, skip or recompile that is neither in the lock nor allowed."""
    MORE_TIMES = "more-times"
    """A site that is in the lock, but now happens more often."""
    MORE = "more"
    """A count that is above the lock's count."""
    LIMIT = "limit"
    """A count above the policy's limit, or coverage below the policy's minimum."""
    NOTHING_COMPILED = "nothing-compiled"
    DOUBT = "doubt"
    """Sources disagree, or the log cannot be read."""
    NOT_MEASURED = "not-measured"
    """The policy limits a count that was not measured."""
    FAILED = "failed"
    """The model fails in eager, or cannot be loaded."""
    COMPILE_FAILED = "compile-failed"
    """The model runs in eager and raises with torch.compile."""
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    WRONG = "wrong"
    """A model or its entry in the policy is missing or invalid."""
    VANISHED = "vanished"
    """The lock has a model that the policy no longer names."""
    NO_SECTION = "no-section"
    """The lock has results for other versions of torch, but not for this version."""


EXITS: Mapping[FindingKind, Exit] = {
    FindingKind.NEW_SITE: Exit.WORSE,
    FindingKind.MORE_TIMES: Exit.WORSE,
    FindingKind.MORE: Exit.WORSE,
    FindingKind.LIMIT: Exit.WORSE,
    FindingKind.NOTHING_COMPILED: Exit.UNTRUSTED,
    FindingKind.DOUBT: Exit.UNTRUSTED,
    FindingKind.NOT_MEASURED: Exit.UNTRUSTED,
    FindingKind.FAILED: Exit.PROGRAM,
    FindingKind.COMPILE_FAILED: Exit.PROGRAM,
    FindingKind.CRASHED: Exit.PROGRAM,
    FindingKind.TIMEOUT: Exit.PROGRAM,
    FindingKind.WRONG: Exit.USAGE,
    FindingKind.VANISHED: Exit.USAGE,
    FindingKind.NO_SECTION: Exit.USAGE,
}
_GRAVEST = (Exit.USAGE, Exit.PROGRAM, Exit.UNTRUSTED, Exit.WORSE)
"""Precedence of exit codes: problems that make other findings doubtful come first."""


class GateFinding(Struct, frozen=True):
    """A problem that fails a check."""

    kind: FindingKind
    what: str
    """One line, such as `+1 GB0170 mask.py::forward`."""
    todo: str = ""
    """One line."""
    site: Site | None = None
    count: Count | None = None
    was: float | None = None
    """What the lock or the policy allows for the count, the times or the coverage."""
    now: float | None = None
    file: str | None = None
    line: int | None = None
    by_inductor: bool = False
    """Whether the lock may lack it only because ctrace did not record Inductor's guards when it wrote the lock."""
    consequences: tuple["GateFinding", ...] = ()
    """In reports, the findings that the same change removes."""
    suggestion: SuggestedRepair | None = None
    """The repair that `--suggest` looked for; None: it did not look."""


class SeenJob(Struct, frozen=True):
    """What a check keeps of a finished job: sessions are large, and there may be hundreds."""

    job: CheckJob
    state: CheckedState | None = None
    """None without a session."""
    doubts: tuple[GateFinding, ...] = ()
    """Why the job cannot be judged or trusted."""
    has_ended: bool = True
    """Whether the program ran to its end, so that the results are complete."""
    seconds: float = 0.0
    run: str | None = None
    is_reused: bool = False
    """Whether the result is from an earlier check."""


class CheckedJob(Struct, frozen=True):
    """One job with its findings."""

    job: JobKey
    state: CheckedState | None = None
    """What the check compared; None if there was nothing to compare."""
    findings: tuple[GateFinding, ...] = ()
    allowed: tuple[tuple[Site, Allow], ...] = ()
    better: tuple[str, ...] = ()
    """What can be removed from the lock, one line each."""
    is_new: bool = False
    """Whether there is a lock, but without this job."""
    graphs_before: int | None = None
    """The number of graphs according to the lock."""
    seconds: float = 0.0
    run: str | None = None
    """The saved run, for `ctrace breaks RUN`."""
    known_as: JobKey | None = None
    """The job's key in the lock, if it differs; see `CheckJob.known_as`."""
    is_reused: bool = False
    """Whether the result is from an earlier check."""

    @property
    def exit(self) -> Exit:
        """The exit code of this job alone."""
        return gravest(self.findings)


class CheckOutcome(Struct, frozen=True):
    """Everything that one check found."""

    policy: CheckPolicy
    lock: Lock
    checked: tuple[CheckedJob, ...] = ()
    findings: tuple[GateFinding, ...] = ()
    """Findings on the whole check."""
    notes: tuple[str, ...] = ()
    """Notes that do not fail the check: an allow entry that expired or matches nothing, a moved model."""
    vanished: tuple[str, ...] = ()
    """Models that are in the lock but no longer in the policy, including models whose file was only moved."""
    moved: Mapping[JobKey, JobKey] = field(default_factory=dict)
    """The old keys in the lock, keyed by job, for models whose file was moved or renamed."""
    torch: str = ""
    """The minor version of torch, or several for traces from elsewhere; empty if nothing ran."""
    seconds: float = 0.0
    command: str = "ctrace check"
    """The command that repeats the check."""
    inductor_guards: bool = True
    """Whether the jobs recorded the guards that Inductor adds to graphs with symbolic sizes."""
    reused: str = ""
    """The one of the notes that says how many results of the last check were reused; nothing is wrong then."""

    @property
    def exit(self) -> Exit:
        """The exit code of the whole check."""
        findings = [*self.findings, *(each for one in self.checked for each in one.findings)]
        return gravest(tuple(findings))


def gravest(findings: tuple[GateFinding, ...]) -> Exit:
    """Return the exit code of several findings."""
    codes = {EXITS[each.kind] for each in findings}
    return next((code for code in _GRAVEST if code in codes), Exit.DONE)
