"""Extract what a check compares from a session: its counts, and its sites."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ctrace.inspector.diagnosis.advice_sites import may_be_by_inductor, sites_of
from ctrace.inspector.facts.built import Built
from ctrace.inspector.facts.cuda_graphs import CudaGraphStatus
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.sites import Site, SiteKey, SiteKind
from ctrace.inspector.facts.target_gpu import NOT_REAL
from ctrace.inspector.features.check.check_model import CheckedState, JobKey
from ctrace.inspector.features.check.policy_model import BREAKS_OF, Count
from ctrace.inspector.findings.missed_fusions import not_fused
from ctrace.inspector.grouping import grouped

_MINOR = re.compile(r"\d+\.\d+")
OF_SITES = frozenset((*BREAKS_OF.values(), Count.SKIPPED, Count.RECOMPILES, Count.CULPRITS))
"""Counts of sites; a check compares these site by site."""


def state_of(session: Session, job: JobKey, root: Path) -> CheckedState:
    """Return what a check compares with the lock and the policy, with paths relative to `root`."""
    sites = sites_of(session, root)
    counts = dict(_site_counts(sites)) | dict(_measured(session)) | dict(_culprits(session, sites))
    if session.memory is not None and not session.memory.why_not:
        counts[Count.PEAK_BYTES] = session.memory.peak.bytes
    by_inductor = any(may_be_by_inductor(each, session) for each in session.recompiles)
    not_lowered = sum(added is None for added in session.inductor_guards.values())
    not_real = (problem.what for problem in session.problems if NOT_REAL in problem.what)
    notes = (*not_real, *_accuracy_notes(session))
    return CheckedState(job, minor_of(session), counts, _coverage(session), sites, by_inductor, not_lowered, notes)


def minor_of(session: Session) -> str:
    """Return the minor version of torch: `2.13` for 2.13.0+cpu; empty if the log does not say."""
    match = _MINOR.match(session.environment.torch)
    if not match:
        return ""
    return match[0]


def count_of(site: SiteKey) -> Count | None:
    """Return the count that a site adds to; None for a break that the author requested, and for wrong results."""
    match site.kind:
        case SiteKind.BREAK:
            return BREAKS_OF[site.owner]
        case SiteKind.SKIP:
            return Count.SKIPPED
        case SiteKind.RECOMPILE:
            return Count.RECOMPILES
        case SiteKind.CULPRIT:
            return Count.CULPRITS
        case SiteKind.DISABLED | SiteKind.DANGER:
            return None


def _site_counts(sites: Iterable[Site]) -> Iterator[tuple[Count, int]]:
    found = list(sites)
    for count in (*BREAKS_OF.values(), Count.SKIPPED):
        # By places, not by times: how often a break is hit depends on how often its function is compiled.
        yield count, sum(site.places for site in found if count_of(site.key) is count)
    yield Count.RECOMPILES, sum(site.times for site in found if site.key.kind is SiteKind.RECOMPILE)


def _culprits(session: Session, sites: Iterable[Site]) -> Iterator[tuple[Count, int]]:
    """Count culprits where kernels were compared."""
    if session.accuracy is not None and session.accuracy.kernels:
        yield Count.CULPRITS, sum(each.key.kind is SiteKind.CULPRIT for each in sites)


def are_compared(counts: Mapping[Count, int]) -> bool:
    """Whether a job compared its kernels; if not, what the lock says of culprits stays as it is."""
    return Count.CULPRITS in counts


def _accuracy_notes(session: Session) -> Iterator[str]:
    """Say what was not compared."""
    if session.accuracy is not None and session.accuracy.kernels:
        found = session.accuracy.not_compared
    else:
        found = ()
    if found:
        more = ""
        if len(found) > 1:
            more = f", and {len(found) - 1} more"
        yield f"numbers not compared: {found[0].what}: {found[0].why}{more}"


def _measured(session: Session) -> Iterator[tuple[Count, int]]:
    # What was not measured has no count: 0 would be within each limit.
    yield Count.GRAPHS, len(session.graphs)
    refused = sum(each.refused for each in session.limit.functions)
    # Only the user's functions are listed; one of a library may have hit the limit.
    yield Count.LIMIT_HITS, max(refused, int(session.limit.hit))
    coverage = session.coverage
    if coverage.ops is not None and coverage.compiled is not None:
        yield Count.EAGER_OPS, coverage.ops - coverage.compiled
    if session.code:
        yield Count.KERNELS, sum(kernel.language != "external" for kernel in session.kernels)
    if session.fusions:
        yield Count.MISSED_BYTES, sum(each.bytes for fusion in session.fusions for each in not_fused(fusion).missed)
    spills = [each for each in session.built if each.spills is not None]
    if spills:
        yield Count.SPILLS, _spills(spills)
    if session.gpu is not None and session.cuda_graphs:
        yield Count.CUDA_GRAPH_SKIPS, sum(each.status is CudaGraphStatus.SKIPPED for each in session.cuda_graphs)
    recordings = [each.recordings for each in session.cuda_graphs if each.recordings is not None]
    if recordings:
        # The first recording is the one that has to be.
        yield Count.CUDA_GRAPH_RERECORDINGS, sum(max(number - 1, 0) for number in recordings)


def _spills(built: Iterable[Built]) -> int:
    """Sum spilled registers over kernels: of the chosen configuration, or of the one that spills least if none is
    chosen.
    """
    kernels = grouped(built, lambda each: (each.graph, each.stage, each.kernel))
    total = 0
    for several in kernels.values():
        chosen = [each for each in several if each.chosen] or several
        total += min(each.spills or 0 for each in chosen)
    return total


def _coverage(session: Session) -> float | None:
    ops, compiled = session.coverage.ops, session.coverage.compiled
    if ops and compiled is not None:
        return 100 * compiled / ops
    return None
