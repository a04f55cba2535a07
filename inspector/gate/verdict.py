"""What a check comes to: findings, each with its exit code, of jobs and of all of them together."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ctrace.inspector.errors import Exit
from ctrace.inspector.gate.model import Job, JobKey, Lock, Site, State
from ctrace.inspector.gate.policy.model import Allow, Count, Policy


class FindingKind(StrEnum):
    """What a check can find wrong. Names are those of the JSON, and rule ids of SARIF."""

    NEW_SITE = "new-site"
    """A break, skip or recompile that is neither in the lock nor allowed."""
    MORE_TIMES = "more-times"
    """A known site that happens more often."""
    MORE = "more"
    """A count above the lock's."""
    LIMIT = "limit"
    """A count above the policy's limit, or coverage below it."""
    NOTHING_COMPILED = "nothing-compiled"
    DOUBT = "doubt"
    """Sources disagree, or the log cannot be read."""
    NOT_MEASURED = "not-measured"
    """The policy limits what was not measured."""
    FAILED = "failed"
    """The model fails in eager, or cannot be loaded."""
    COMPILE_FAILED = "compile-failed"
    """The model runs in eager and raises when it is compiled."""
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    WRONG = "wrong"
    """A model, or what the policy says of it, is not there or cannot be read."""
    VANISHED = "vanished"
    """The lock knows a model that the policy names no more."""
    NO_SECTION = "no-section"
    """The lock knows other versions of torch, and not this one."""


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
"""Where a check finds several things, the first of these is its exit code: what makes others doubtful comes first."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a check does not let pass."""

    kind: FindingKind
    what: str
    """One line, such as `+1 GB0170 mask.py::forward`."""
    todo: str = ""
    """One line."""
    site: Site | None = None
    count: Count | None = None
    was: float | None = None
    """Of a count, of times or of coverage: what the lock or the policy lets pass."""
    now: float | None = None
    file: str | None = None
    line: int | None = None
    by_inductor: bool = False
    """Whether the lock may only lack it because ctrace did not see Inductor's guards when the lock was written."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a gate keeps of a job that ran; its session is large, and there may be hundreds."""

    job: Job
    state: State | None = None
    """None: there is no session."""
    doubts: tuple[Finding, ...] = ()
    """Why it cannot be judged, or not be trusted."""
    has_ended: bool = True
    """Whether the program ran to its end, so that what was not seen is not there."""
    seconds: float = 0.0
    run: str | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """One job and what came of it."""

    job: JobKey
    state: State | None = None
    """None: it showed nothing that can be compared."""
    findings: tuple[Finding, ...] = ()
    allowed: tuple[tuple[Site, Allow], ...] = ()
    better: tuple[str, ...] = ()
    """What the lock could forget, one line each."""
    is_new: bool = False
    """Whether a lock is there that does not know the job."""
    graphs_before: int | None = None
    """Of the lock."""
    seconds: float = 0.0
    run: str | None = None
    """The saved run, for `ctrace breaks RUN`."""
    known_as: JobKey | None = None
    """What the lock calls it, if something else; see `Job`."""

    @property
    def exit(self) -> Exit:
        """Give the exit code of this job alone."""
        return gravest(self.findings)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that one check found."""

    policy: Policy
    lock: Lock
    checked: tuple[Checked, ...] = ()
    findings: tuple[Finding, ...] = ()
    """Those about no job."""
    notes: tuple[str, ...] = ()
    """What is worth saying and lets the check pass: an allow entry that expired or matches nothing, a moved model."""
    vanished: tuple[str, ...] = ()
    """Models that the lock knows and the policy names no more, those among them whose file was only moved."""
    moved: Mapping[JobKey, JobKey] = field(default_factory=dict)
    """Jobs that the lock knows by the path that their model's file had."""
    torch: str = ""
    """Minor version, or several of traces made elsewhere; empty: nothing ran."""
    seconds: float = 0.0
    command: str = "ctrace check"
    """What checks the same again."""
    inductor_guards: bool = True
    """Whether every job saw the guards that Inductor adds to graphs with symbolic sizes."""

    @property
    def exit(self) -> Exit:
        """Give the exit code of the whole check."""
        every = [*self.findings, *(each for one in self.checked for each in one.findings)]
        return gravest(tuple(every))


def gravest(findings: tuple[Finding, ...]) -> Exit:
    """Give the exit code of several findings."""
    codes = {EXITS[each.kind] for each in findings}
    return next((code for code in _GRAVEST if code in codes), Exit.DONE)
