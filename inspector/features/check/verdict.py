"""The result of a check: findings on single jobs and on the whole check, each with its exit code."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from ctrace.inspector.errors import Exit
from ctrace.inspector.facts.sites import Site
from ctrace.inspector.facts.suggested_repair import SuggestedRepair
from ctrace.inspector.features.check.gate_model import CheckedState, CheckJob, JobKey, Lock
from ctrace.inspector.features.check.policy_model import Allow, CheckPolicy, Count


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
