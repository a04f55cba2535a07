"""Shared by the tests of the gate: sessions from source text, and handmade states, locks and judgments."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ctrace.inspector.facts.findings import Break, BreakKind, Cost, Owner, Skip
from ctrace.inspector.facts.session import Environment, Graph, Session
from ctrace.inspector.facts.sites import Known, Site, SiteKey, SiteKind
from ctrace.inspector.features.check.check_model import (
    Baseline,
    CheckedJob,
    CheckedState,
    CheckJob,
    CheckOutcome,
    JobKey,
    Lock,
    SeenJob,
)
from ctrace.inspector.features.check.check_state import state_of
from ctrace.inspector.features.check.judging import judged
from ctrace.inspector.features.check.policy_model import Allow, CheckPolicy, Count, Limits
from ctrace.inspector.runs.capture_request import Options

ROOT = Path("/home/user/project")
TODAY = date(2026, 7, 1)
MODEL = JobKey("model.py")
GB = "GB0059"


def at_text(source: str, text: str, **parts: Any) -> Break:
    """Make a break at the only source line that contains a text."""
    (line,) = (number for number, each in enumerate(source.split("\n"), 1) if text in each)
    known = {
        "gb": (GB,), "kind": BreakKind.BREAK, "owner": Owner.USER, "file": f"{ROOT}/model.py", "line": line,
        "function": "forward", "source": source.split("\n")[line - 1].strip(), "reason": "", "fix": "", "times": 1,
        "compilations": ("0/0",), "cost": Cost(1, 1),
    }  # fmt: skip
    return Break(**{**known, **parts})


def session_of(
    source: str, breaks: Sequence[Break] = (), skips: Sequence[Skip] = (), file: str = f"{ROOT}/model.py", **parts: Any
) -> Session:
    """Make the session of a model's source with a compiled graph."""
    return Session(
        environment=Environment(torch="2.13.0"),
        graphs=tuple(Graph(f"{number}/0", "forward", file, 1, 2) for number in range(len(breaks) + 1)),
        breaks=tuple(replace(each, file=file) for each in breaks),
        skips=tuple(replace(each, file=file) for each in skips),
        listings={file: source},
        **parts,
    )


def state(session: Session, job: JobKey = MODEL) -> CheckedState:
    """Extract the state of a session that the gate compares."""
    return state_of(session, job, ROOT)


def site(text: str = "print(x)", place: str = "model.py::Net.forward", gb: str = GB, **parts: Any) -> Site:
    """Make a site; `kind` and `owner` are parts of its key."""
    key = SiteKey(parts.pop("kind", SiteKind.BREAK), (gb,), parts.pop("owner", Owner.USER), place, text)
    return Site(key, **parts)


def state_with(*sites: Site, torch: str = "2.13", coverage: float | None = None, **counts: int) -> CheckedState:
    """Make the state of a job; its counts of sites follow from the sites."""
    by_kind = {Count.BREAKS: SiteKind.BREAK, Count.SKIPPED: SiteKind.SKIP, Count.RECOMPILES: SiteKind.RECOMPILE}
    counted = {count: sum(each.key.kind is kind for each in sites) for count, kind in by_kind.items()}
    numbers = {Count(name): number for name, number in counts.items()}
    return CheckedState(MODEL, torch, {Count.GRAPHS: 1, Count.LIMIT_HITS: 0, **counted, **numbers}, coverage, sites)


def seen_of(given: CheckedState, limits: Limits | None = None, job: JobKey | None = None, **parts: Any) -> SeenJob:
    """Make the result of a job that ran and has a state."""
    key = job or given.job
    ran = CheckJob(key, key.model, Options(), limits or Limits(), known_as=parts.pop("known_as", None))
    return SeenJob(ran, replace(given, job=key), **parts)


def lock_of(given: CheckedState, job: JobKey | None = None) -> Lock:
    """Record a state in a lock."""
    recorded = (Count.GRAPHS, Count.EAGER_OPS, Count.CULPRITS, Count.PEAK_BYTES)
    counts: dict[Count, int] = {count: given.counts[count] for count in given.counts if count in recorded}
    sites = tuple(Known(each.key, each.times) for each in given.sites)
    return Lock({given.torch: {job or given.job: Baseline(counts, sites)}}, "ctrace.lock")


def outcome_of(
    seen: SeenJob | Sequence[SeenJob], lock: Lock | None = None, allow: Iterable[Allow] = (), **parts: Any
) -> CheckOutcome:
    """Judge jobs."""
    every = [seen] if isinstance(seen, SeenJob) else list(seen)
    today = parts.pop("today", TODAY)
    return judged(every, CheckPolicy(allow=tuple(allow)), lock or Lock(), today, **parts)


def checked_of(seen: SeenJob, lock: Lock | None = None, allow: Iterable[Allow] = (), **parts: Any) -> CheckedJob:
    """Judge one job."""
    (only,) = outcome_of(seen, lock, allow, **parts).checked
    return only


def kinds(found: CheckedJob | CheckOutcome) -> list[str]:
    """Name the findings, in order."""
    return [str(each.kind) for each in found.findings]


def counts_of(given: CheckedState) -> Mapping[Count, int]:
    """Return the counts that are not 0."""
    return {count: number for count, number in given.counts.items() if number}
