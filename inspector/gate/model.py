"""What a gate works on: jobs, the lock's baseline, what runs showed, and what that comes to beside the policy.

A *job* is one capture: a model, one of the policy's scenarios, and a target (the CPU, or a GPU that code is emitted
for). A *site* is a place that holds a model back, known by what it is and not by its line number.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from ctrace.inspector.errors import CtraceError, Exit
from ctrace.inspector.findings import Cost, Owner
from ctrace.inspector.gate.policy import CPU, Allow, Count, Limits, Policy
from ctrace.inspector.order import Options

if TYPE_CHECKING:
    from ctrace.inspector.model import Session

TRACE = "trace"
"""Stands for the target of what ran elsewhere, and left a log."""


@dataclass(frozen=True, slots=True, order=True)
class JobKey:
    """Which capture: a model, the policy's scenario, the target."""

    model: str
    """As the policy names it: a path below its folder, with `/`, perhaps with `:name`; or `package.module:name`.

    Of a check in a test the test's node id, `tests/test_net.py::test_net`, perhaps with `#2` or `#name`.
    """
    scenario: str = "base"
    target: str = CPU

    @property
    def is_of_test(self) -> bool:
        """Whether a test made it, and not `ctrace check`."""
        return "::" in self.model

    @property
    def is_of_policy(self) -> bool:
        """Whether it is of a model that a policy names: not of a test, nor of a log made elsewhere."""
        return not self.is_of_test and self.target != TRACE

    def __str__(self) -> str:
        more = [each for each in (self.scenario, self.target) if each not in ("base", CPU, TRACE)]
        return " · ".join([self.model, *more])


class SiteKind(StrEnum):
    """What holds a model back at a site."""

    BREAK = "break"
    DISABLED = "disabled"
    """A break that the author asked for."""
    SKIP = "skip"
    RECOMPILE = "recompile"
    """One after warm-up; see `facts.py`."""
    DANGER = "danger"
    """A compiled call gave other results than eager."""


@dataclass(frozen=True, slots=True, order=True)
class SiteKey:
    """What makes a site the same in another run: nothing that moving or reformatting code changes."""

    kind: SiteKind
    causes: tuple[str, ...]
    """Of a break its gb ids, of a skip those or the rule's name, of the others the kinds of causes; sorted."""
    owner: Owner
    place: str
    """`path/of/file.py::Class.method`; relative to the policy's folder or to site-packages, with `/`."""
    text: str
    """Source of the statement, normalised: no comments, no line breaks, one spelling. Of a recompile what changed."""


@dataclass(frozen=True, slots=True)
class Site:
    """A place that holds a model back, as a run showed it."""

    key: SiteKey
    times: int = 1
    """Of a break, the compilations of its own function that met it; of a recompile, how many there were."""
    file: str = ""
    line: int = 0
    source: str = ""
    """The line as its file has it, with its indentation; empty: not known."""
    span: tuple[int, int] | None = None
    """Columns of the line that did it, without its indentation; see `findings.Frame.span`."""
    reason: str = ""
    fix: str = ""
    cost: Cost = field(default_factory=Cost)
    places: int = 1
    """How many statements of a function read the same and are this site; limits count each of them."""


@dataclass(frozen=True, slots=True)
class State:
    """What a job showed that a gate looks at."""

    job: JobKey
    torch: str = ""
    """Minor version, such as 2.13."""
    counts: Mapping[Count, int] = field(default_factory=dict)
    """Those that were measured."""
    coverage: float | None = None
    """Percentage of ops in graphs; None: not measured."""
    sites: tuple[Site, ...] = ()


@dataclass(frozen=True, slots=True)
class Known:
    """A site of the lock."""

    key: SiteKey
    times: int = 1


@dataclass(frozen=True, slots=True)
class Job:
    """A capture that a check makes."""

    key: JobKey
    target: str
    """What to run, as `ctrace explain` takes it."""
    options: Options
    limits: Limits = field(default_factory=Limits)
    timeout: float = 600.0
    """Seconds."""
    known_as: JobKey | None = None
    """What the lock calls it, if something else: all ranks of a job elsewhere are one."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A job that ran, or could not."""

    job: Job
    session: "Session | None" = None
    error: CtraceError | None = None
    """Why there is no session: the target, an option or the machine is wrong."""
    seconds: float = 0.0
    run: str | None = None
    """The saved run, for `ctrace breaks RUN`."""
    said: str = ""
    """The last lines that the program wrote, where it failed."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """What the lock says of one job."""

    counts: Mapping[Count, int] = field(default_factory=dict)
    sites: tuple[Known, ...] = ()


@dataclass(frozen=True, slots=True)
class Lock:
    """What models showed when the lock was last written, by minor version of torch."""

    sections: Mapping[str, Mapping[JobKey, Baseline]] = field(default_factory=dict)
    file: str | None = None
    """Its file; None: there is none."""


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
_GRAVEST = (Exit.USAGE, Exit.UNTRUSTED, Exit.PROGRAM, Exit.WORSE)
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

    @property
    def exit(self) -> Exit:
        """Give the exit code of the whole check."""
        every = [*self.findings, *(each for one in self.checked for each in one.findings)]
        return gravest(tuple(every))


def gravest(findings: tuple[Finding, ...]) -> Exit:
    """Give the exit code of several findings."""
    codes = {EXITS[each.kind] for each in findings}
    return next((code for code in _GRAVEST if code in codes), Exit.DONE)
