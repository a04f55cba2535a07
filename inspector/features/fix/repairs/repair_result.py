"""What `ctrace fix` found: the repairs that it tried, what each check showed, and their combination."""

import hashlib
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.facts.diagnosis import Counts, Effect, RootCause, Suggestion
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.trial import NewText
from ctrace.inspector.findings.missed_fusions import alike, not_fused

_MOST_MISSED = 10
"""Pairs of kernels for which a repair is looked for, the largest first."""


class MissedFinding(Struct, frozen=True):
    """Two kernels that share data but are not fused."""

    id: str
    first: tuple[str, ...]
    """Ops of the kernel that runs first."""
    second: tuple[str, ...]
    lines: tuple[str, ...]
    bytes: int
    times: int


def missed_findings(session: Session) -> tuple[MissedFinding, ...]:
    """Return the missed fusions with at least one kernel that Inductor generates, the most bytes first."""
    pairs = [each for fusion in session.fusions for each in not_fused(fusion).missed if each.is_possible and each.bytes]
    found = []
    for kind in alike(sorted(pairs, key=lambda each: -each.bytes))[:_MOST_MISSED]:
        one = kind.example
        first, second = tuple(map(str, one.first.ops)), tuple(map(str, one.second.ops))
        lines = tuple(dict.fromkeys(map(str, (*one.first.lines, *one.second.lines))))
        text = "\0".join((*first, "", *second, "", *lines))
        id_ = f"missed_fusion-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"
        found.append(MissedFinding(id_, first, second, lines, one.bytes, kind.times))
    return tuple(found)


class ProofCheck(Struct, frozen=True):
    """One part of a proof."""

    name: str
    passed: bool
    detail: str = ""
    """What differed; for a passed check, its evidence."""


class How(StrEnum):
    """What closes an obligation."""

    READING = "reading"
    TRYING = "trying"
    QUESTION = "question"


class Obligation(Struct, frozen=True):
    """One way to tell two programs apart."""

    name: str
    closed: bool
    how: How
    detail: str = ""
    """What closes it, or how the programs differ."""


class ProofOutcome(Struct, frozen=True):
    """What the proof of a change showed."""

    checks: tuple[ProofCheck, ...]
    effect: Effect | None = None
    note: str = ""
    """How far the proof reaches, such as `proved up to Inductor`."""
    obligations: tuple[Obligation, ...] = ()
    eager_slowdown: float | None = None
    """How many times as long the slowest eager call takes with the change; None: not measured."""
    questions: tuple[tuple[str, str], ...] = ()
    """What trying left to the author, as the name of an obligation and the question."""
    later: tuple[int, int] | None = None
    """Recompilations in ten calls, before and after, where two calls show no difference; None: not counted."""

    @property
    def proved(self) -> bool:
        """Whether there was a check, and all passed."""
        return bool(self.checks) and all(each.passed for each in self.checks)

    @property
    def why(self) -> str:
        """Why the change is not proved; empty: it is."""
        return next((each.detail for each in self.checks if not each.passed), "" if self.checks else "it was not tried")


class TriedRepair(Struct, frozen=True):
    """A repair, and the outcome of its proof."""

    JSON: ClassVar[str] = (
        "finding findings name kind summary proved why=outcome.why|null_if_empty checks=outcome.checks "
        "obligations=outcome.obligations eager_slowdown=outcome.eager_slowdown|rounded "
        "later_recompiles=outcome.later effect=outcome.effect changes_arithmetic question|null_if_empty "
        "library|null_if_empty how|null_if_empty patch"
    )
    finding: str
    """Id of the finding that it repairs."""
    findings: tuple[str, ...]
    """Ids of all findings that it removes; empty: it only saves graphs or recompilations."""
    name: str
    kind: str
    """`configuration` or `source`."""
    summary: str
    outcome: ProofOutcome
    files: tuple[NewText, ...] = ()
    """The changed files, whole."""
    patch: str = ""
    how: str = ""
    """What to do where no file can be changed, such as an argument of torch.compile."""
    question: str = ""
    """What only the author can decide."""
    changes_arithmetic: bool = False
    library: str = ""
    """The package that it would change; empty: the user's own files."""

    @property
    def proved(self) -> bool:
        """Whether every check passed."""
        return self.outcome.proved

    @property
    def is_free(self) -> bool:
        """Whether it is proved and asks no question."""
        return self.proved and not self.question


class CombinedStep(Struct, frozen=True):
    """One repair of a combination, and the counts after it."""

    JSON: ClassVar[str] = "name summary *counts"
    name: str
    summary: str
    counts: Counts


class Combined(Struct, frozen=True):
    """Repairs that are proved together."""

    JSON: ClassVar[str] = (
        "repairs=steps findings proved=outcome.proved why=outcome.why|null_if_empty note=outcome.note "
        "checks=outcome.checks obligations=outcome.obligations "
        "eager_slowdown=outcome.eager_slowdown|rounded later_recompiles=outcome.later effect=outcome.effect "
        "how patch"
    )
    steps: tuple[CombinedStep, ...]
    outcome: ProofOutcome
    files: tuple[NewText, ...]
    patch: str
    how: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    """Ids of the findings that are gone."""


class Fixes(Struct, frozen=True):
    """The result of `ctrace fix`: the Document of its screen and of its JSON."""

    JSON: ClassVar[str] = (
        "schema verdict=session.verdict target=session.target findings advice missed_fusions=missed repairs "
        "combined unstable|null_if_empty not_asked budget_spent untried left_out interrupted "
        "seconds|rounded problems proved_at|moment"
    )
    session: Session
    """The run that the repairs are for."""
    findings: tuple[RootCause, ...]
    missed: tuple[MissedFinding, ...] = ()
    repairs: tuple[TriedRepair, ...] = ()
    combined: Combined | None = None
    unstable: str = ""
    """How two eager runs of the unchanged target differ; then nothing can be proved."""
    problems: tuple[str, ...] = ()
    seconds: float = 0.0
    budget: float | None = None
    """Seconds that the search could take; None: as long as it needs."""
    budget_spent: bool = False
    untried: int = 0
    """Candidates not tried, because no time was left."""
    left_out: tuple[str, ...] = ()
    """What else was not done, because no time was left."""
    interrupted: bool = False
    not_asked: tuple[str, ...] = ()
    """Ids of the findings that `--only` or `--finding` leaves out."""
    advice: tuple[Suggestion, ...] = ()
    """The advice of `explain`, best first; trials check it where there is no repair to prove."""
    texts: tuple[NewText, ...] = ()
    """The files that repairs change, as they are on disk."""
    proved_at: float | None = None
    """When an earlier command proved it, in seconds since the epoch; None: this one did."""

    @property
    def cwd(self) -> str:
        """The run's working directory, in which paths are shortened."""
        return self.session.environment.cwd

    def proved_for(self, finding: str) -> tuple[TriedRepair, ...]:
        """Return the proved repairs of a finding, best first."""
        return tuple(each for each in self.repairs if each.proved and finding in (each.finding, *each.findings))

    def is_fixed(self, finding: str) -> bool:
        """Whether a proved repair removes a finding."""
        return any(finding in each.findings for each in self.proved_for(finding))


def chosen(fixes: Fixes) -> Combined | None:
    """Return the combination to apply; None: none is proved."""
    if fixes.combined is not None and fixes.combined.outcome.proved:
        return fixes.combined
    return None


def base_of(fixes: Fixes) -> dict[str, str]:
    """Return the files that repairs change, as they are on disk."""
    return {each.file: each.text for each in fixes.texts}
