"""Update the lock after a check: to today's state, or only with improvements (`updated`).

`LockOfTests` collects the results of checks in tests, also from other processes, and writes the lock once.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

from msgspec.structs import replace

from ctrace.inspector.facts.sites import Known, Site, SiteKey, SiteKind
from ctrace.inspector.features.check.check_model import Baseline, CheckedJob, CheckedState, CheckOutcome, JobKey, Lock
from ctrace.inspector.features.check.check_state import OF_SITES, are_compared
from ctrace.inspector.features.check.lock_file import load_lock, lock_text, parse_lock, write_lock, writing_lock
from ctrace.inspector.features.check.policy_model import Count
from ctrace.inspector.features.check.trust import is_judged
from ctrace.inspector.findings.site_matching import matched

_NOT_RECORDED = OF_SITES - {Count.CULPRITS}
"""Counts that the sites of a lock say; that of culprits also says that there was a comparison."""


def updated(outcome: CheckOutcome, *, only_improve: bool = False) -> Lock:
    """Return the lock with the results of a check, in the sections of the torch versions that the jobs ran with.

    A job that could not be judged keeps its entry. The lock does not include sites that the policy allows. With
    `only_improve`, nothing gets looser: a known job gets only improvements, a new job gets an entry only if it has no
    sites, and a vanished model keeps its entry, since checking less is not an improvement.
    """
    ran = {each.state.torch for each in outcome.checked if each.state is not None}
    sections = {
        torch: dict(_kept(jobs, outcome, forget=not only_improve) if torch in ran else jobs)
        for torch, jobs in outcome.lock.sections.items()
    }
    for (torch, job), several in _by_job(outcome.checked).items():
        now: Baseline | None = _together(several)
        if only_improve:
            now = _improved(sections.get(torch, {}).get(job), _together(several))
        if now is not None:
            before = sections.get(torch, {}).get(job)
            sections.setdefault(torch, {})[job] = _sorted(_with_culprits(_with_peak(now, before), before))
    return replace(outcome.lock, sections=sections)


def _kept(jobs: Mapping[JobKey, Baseline], outcome: CheckOutcome, *, forget: bool) -> Iterator[tuple[JobKey, Baseline]]:
    """Return the jobs of a section by their current names, without vanished models."""
    names = {was.model: now.model for now, was in outcome.moved.items()}
    for job, known in jobs.items():
        if job.model in names:
            yield replace(job, model=names[job.model]), known
        elif not (forget and job.model in outcome.vanished):
            yield job, known


def _by_job(checked: Iterable[CheckedJob]) -> dict[tuple[str, JobKey], list[Baseline]]:
    """Return the results of each job; omit a job if a part of it, such as one rank, could not be judged."""
    every = list(checked)
    # Of several ranks, each must be judged, or the entry would be what some of them did.
    unknown = {each.known_as or each.job for each in every if not is_judged(each)}
    found: dict[tuple[str, JobKey], list[Baseline]] = {}
    for each in every:
        job = each.known_as or each.job
        if each.state is not None and job not in unknown:
            found.setdefault((each.state.torch, job), []).append(_baseline(each, each.state))
    return found


def _with_peak(now: Baseline, before: Baseline | None) -> Baseline:
    """Keep the peak of a job whose memory was not followed this time."""
    if before is None or Count.PEAK_BYTES in now.counts or Count.PEAK_BYTES not in before.counts:
        return now
    return Baseline({**now.counts, Count.PEAK_BYTES: before.counts[Count.PEAK_BYTES]}, now.sites)


def _with_culprits(now: Baseline, before: Baseline | None) -> Baseline:
    """Keep the culprits of a job that did not compare its kernels this time."""
    if before is None or are_compared(now.counts) or not are_compared(before.counts):
        return now
    known = (each for each in before.sites if each.key.kind is SiteKind.CULPRIT)
    return Baseline({**now.counts, Count.CULPRITS: before.counts[Count.CULPRITS]}, (*now.sites, *known))


def _baseline(checked: CheckedJob, state: CheckedState) -> Baseline:
    allowed = [site.key for site, _ in checked.allowed]
    counts = {count: number for count, number in state.counts.items() if count not in _NOT_RECORDED}
    return Baseline(counts, tuple(Known(site.key, site.times) for site in state.sites if site.key not in allowed))


def _sorted(baseline: Baseline) -> Baseline:
    return replace(baseline, sites=tuple(sorted(baseline.sites, key=lambda each: each.key)))


def _together(several: Iterable[Baseline]) -> Baseline:
    """Merge several runs of one job, such as the ranks of a trace, to a baseline that each of them passes.

    Sites keep their order, because a check pairs them with those of the lock in that order.
    """
    counts: dict[Count, int] = {}
    times: dict[SiteKey, int] = {}
    for each in several:
        for count, number in each.counts.items():
            counts[count] = max(number, counts.get(count, 0))
        for known in each.sites:
            times[known.key] = max(known.times, times.get(known.key, 0))
    return Baseline(counts, tuple(Known(key, number) for key, number in times.items()))


def _improved(before: Baseline | None, now: Baseline) -> Baseline | None:
    """Return a baseline that is no looser than the old one, or None if the job gets no entry."""
    if before is None:
        # A new model must not bring accepted sites into the lock.
        if now.sites or now.counts.get(Count.LIMIT_HITS):
            return None
        return now
    found = matched([Site(each.key, each.times) for each in now.sites], before.sites)
    sites = tuple(Known(site.key, min(site.times, known.times)) for site, known in found.pairs)
    counts = {count: min(number, before.counts.get(count, number)) for count, number in now.counts.items()}
    # A count that was not measured this time keeps its number.
    return Baseline({**before.counts, **counts}, sites)


class LockOfTests:
    """The lock's file, and the results of the tests in this pytest session."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path = path
        self.unknown: set[str] = set()
        """Checks that the lock does not have."""
        self._root = root
        self._seen: dict[str, dict[JobKey, Baseline]] = {}

    @cached_property
    def lock(self) -> Lock:
        """Read the lock, once.

        Raises:
            LockError: it cannot be read, or it is invalid.
        """
        return load_lock(self.path)

    def keep(self, shown: Lock) -> None:
        """Record the results of checks."""
        for torch, jobs in shown.sections.items():
            self._seen.setdefault(torch, {}).update(jobs)

    @property
    def kept(self) -> int:
        """Return the number of checks to write."""
        return sum(map(len, self._seen.values()))

    def to_text(self) -> str:
        """Return this process's results as text, for the process that writes the file."""
        # In the lock's own format, so that it is read with the same checks.
        return json.dumps({"seen": lock_text(Lock(self._seen)), "unknown": sorted(self.unknown)})

    def take(self, text: str) -> None:
        """Add the results that `to_text` returned in another process."""
        data = json.loads(text)
        self.keep(parse_lock(data["seen"], str(self.path)))
        self.unknown.update(data["unknown"])

    def write(self) -> bool:
        """Write the results to the file, and remove tests whose file is gone; return whether the lock changed.

        Raises:
            LockError: it cannot be read or written.
        """
        # Read again, since another process may have written since the session began.
        with writing_lock(self.path) as before:
            sections = self._sections(before)
            if sections == before.sections:
                return False
            write_lock(self.path, Lock(sections))
            return True

    def _sections(self, before: Lock) -> dict[str, dict[JobKey, Baseline]]:
        return {torch: {key: jobs[key] for key in jobs if self._is_there(key)} for torch, jobs in self._all(before)}

    def _all(self, before: Lock) -> list[tuple[str, dict[JobKey, Baseline]]]:
        versions = dict.fromkeys((*before.sections, *self._seen))
        return [(torch, {**before.sections.get(torch, {}), **self._seen.get(torch, {})}) for torch in versions]

    def _is_there(self, key: JobKey) -> bool:
        # A test that did not run may have been left out by `-k`; only one without a file is gone.
        return not key.is_of_test or (self._root / key.model.partition("::")[0]).is_file()
