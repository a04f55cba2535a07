"""Judge all jobs of a check (`judged`): compare each with the lock and the policy, and report every problem in one
line.

`Judge` judges single jobs, `judged` also what no single job shows.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.errors import CtraceError
from ctrace.inspector.facts.sites import Site, SiteKey, SiteKind
from ctrace.inspector.features.check.check_model import (
    Baseline,
    CheckedJob,
    CheckedState,
    CheckJob,
    CheckOutcome,
    FindingKind,
    GateFinding,
    JobKey,
    Lock,
    SeenJob,
)
from ctrace.inspector.features.check.check_state import OF_SITES, are_compared, count_of
from ctrace.inspector.features.check.policy_model import (
    CPU,
    STRICT,
    Allow,
    CheckPolicy,
    Count,
    Limits,
    allowing,
    useless,
)
from ctrace.inspector.features.check.trust import is_judged
from ctrace.inspector.findings.site_matching import Matched, matched
from ctrace.inspector.grouping import grouped
from ctrace.inspector.knowledge.releases import release_of
from ctrace.inspector.knowledge.version_differences import changed_counts

NAMES = {
    Count.BREAKS: "graph breaks",
    Count.LIBRARY_BREAKS: "graph breaks in libraries",
    Count.TORCH_BREAKS: "graph breaks in torch",
    Count.SKIPPED: "functions that run eagerly",
    Count.RECOMPILES: "recompiles after warm-up",
    Count.GRAPHS: "graphs",
    Count.EAGER_OPS: "ops that run eagerly",
    Count.LIMIT_HITS: "functions at the recompile limit",
    Count.KERNELS: "kernels",
    Count.SPILLS: "spilled registers",
    Count.MISSED_BYTES: "bytes of missed fusions",
    Count.CUDA_GRAPH_SKIPS: "skipped CUDA graphs",
    Count.CUDA_GRAPH_RERECORDINGS: "CUDA graphs recorded again",
    Count.CULPRITS: "lines with wrong numbers",
    Count.PEAK_BYTES: "bytes of memory at the peak",
}


def new_site(key: SiteKey) -> str:
    """Describe a new site, such as `+1 GB0170 mask.py::Mask.forward`."""
    return f"+1 {named(key)}"


def gone_site(key: SiteKey) -> str:
    """Describe a site that is gone, such as `-1 GB0170 mask.py::Mask.forward`."""
    return f"-1 {named(key)}"


def named(key: SiteKey) -> str:
    """Return the name of a site: its causes and its place."""
    return f"{_what(key)} {key.place}"


def _what(key: SiteKey) -> str:
    causes = "+".join(key.causes)
    match key.kind:
        case SiteKind.BREAK:
            return causes or "break"
        case SiteKind.DISABLED:
            return f"disabled ({causes})"
        case SiteKind.SKIP:
            return f"runs eagerly ({causes})"
        case SiteKind.RECOMPILE:
            return f"recompile ({causes})"
        case SiteKind.DANGER:
            return f"different results ({causes})"
        case SiteKind.CULPRIT:
            return f"wrong numbers ({', '.join(key.causes[1:])} in {key.causes[0]})"


_NEEDED = "kernels need a target GPU, ops need a model and its inputs"
_NEEDS: Mapping[Count | None, str] = {
    Count.CUDA_GRAPH_SKIPS: "skips need a target GPU and a mode with CUDA graphs, such as reduce-overhead",
    Count.CUDA_GRAPH_RERECORDINGS: "recordings need the log of a run with --build on a GPU (--from-trace)",
    Count.CULPRITS: "kernels are compared with --accuracy, or accuracy: true in the policy",
    Count.PEAK_BYTES: "memory is followed with --memory, or memory: true in the policy",
}
"""What a count needs to be measured."""
_FOLLOWS = frozenset((Count.GRAPHS, Count.EAGER_OPS))
"""Counts that rise with each new site; if a new site is reported, a report of these adds nothing."""
_WITH_RECOMPILES = frozenset((Count.GRAPHS, Count.RECOMPILES, Count.EAGER_OPS, Count.LIMIT_HITS))
"""Counts that rise with each recompilation."""
_LOCK_LACKS = frozenset((FindingKind.NEW_SITE, FindingKind.MORE_TIMES, FindingKind.MORE))
_SINCE = (
    "if the model did not change, run ctrace check --update: Inductor's guards may be the cause, which ctrace records"
    " only since it lowers graphs with symbolic sizes"
)
_STRICT = frozenset((SiteKind.DANGER, SiteKind.CULPRIT))
"""Kinds of sites that no limit counts, and that a model without an entry in the lock must not have."""


class Judge(Struct, frozen=True):
    """Judges jobs against the policy and the lock."""

    policy: CheckPolicy
    lock: Lock
    today: date
    moved: Mapping[JobKey, JobKey]
    """The old keys in the lock, keyed by job, for models whose file was moved or renamed."""

    def checked(self, seen: SeenJob) -> CheckedJob:
        """Judge one job."""
        ran = CheckedJob(
            seen.job.key, seconds=seen.seconds, run=seen.run, known_as=seen.job.known_as, is_reused=seen.is_reused
        )
        if seen.state is None:
            return replace(ran, findings=seen.doubts)
        baseline = self.baseline(seen.job, seen.state.torch)
        compared = _Compared(self, seen, seen.state, baseline)
        findings = compared.findings()
        better: tuple[str, ...] = ()
        # What one rank does less of than the others is not better: the lock has the most of all ranks.
        if not seen.doubts and not seen.job.known_as:
            better = tuple(compared.better())
        return replace(
            ran,
            state=replace(seen.state, notes=(*seen.state.notes, *_not_compared(seen.state, baseline))),
            findings=(*seen.doubts, *findings),
            allowed=compared.allowed,
            better=better,
            # Without a section for this torch, every model would be new; that is said once.
            is_new=baseline is None and not seen.doubts and seen.state.torch in self.lock.sections,
            graphs_before=baseline.counts.get(Count.GRAPHS) if baseline else None,
        )

    def baseline(self, job: CheckJob, torch: str) -> Baseline | None:
        """Return the lock's entry for a job, or None."""
        key = job.known_as or job.key
        return self.lock.sections.get(torch, {}).get(self.moved.get(key, key))

    def limits(self, job: CheckJob, torch: str, *, is_known: bool) -> Limits:
        """Return a job's limits: the policy's, completed by strict limits for a job without an entry in the lock."""
        # Strict limits would repeat, for each job, that the section is missing.
        if is_known or self.lacks(torch):
            return job.limits
        return job.limits.over(STRICT)

    def lacks(self, torch: str) -> bool:
        """Whether the lock lacks this torch version but has others; the check reports that once for all jobs."""
        return bool(self.lock.sections) and torch not in self.lock.sections


def _not_compared(state: CheckedState, baseline: Baseline | None) -> Iterator[str]:
    """Note that the lock says what kernels compute, and that this check did not look."""
    if baseline is not None and are_compared(baseline.counts) and not are_compared(state.counts):
        yield "numbers are in the lock, but were not compared: --accuracy, or accuracy: true in the policy"
    if baseline is not None and Count.PEAK_BYTES in baseline.counts and Count.PEAK_BYTES not in state.counts:
        yield "the peak of memory is in the lock, but was not followed: --memory, or memory: true in the policy"


class _Compared:
    """Compares one job with its baseline."""

    def __init__(self, judge: Judge, seen: SeenJob, state: CheckedState, baseline: Baseline | None) -> None:
        self._seen = seen
        self._state = state
        self._baseline = baseline
        self._limits = judge.limits(seen.job, state.torch, is_known=baseline is not None)
        self._is_known = baseline is not None
        self._is_strict = baseline is None and not judge.lacks(state.torch)
        entries = [(site, allowing(judge.policy.allow, site.key, judge.today)) for site in state.sites]
        self.allowed: tuple[tuple[Site, Allow], ...] = tuple((site, entry) for site, entry in entries if entry)
        self._allowed = {site.key for site, _ in self.allowed}
        # Allowed sites are matched last, so that they do not use up lock entries that other sites need.
        unallowed = [site for site in state.sites if site.key not in self._allowed]
        if baseline:
            known = baseline.sites
        else:
            known = ()
        # Without a comparison, they are not known to be gone.
        if not are_compared(state.counts):
            known = tuple(each for each in known if each.key.kind is not SiteKind.CULPRIT)
        self._matched: Matched = matched(unallowed, known)
        # An allowed site that the lock has, too, is still there.
        self._gone = matched([site for site, _ in self.allowed], self._matched.gone).gone

    def findings(self) -> Iterator[GateFinding]:
        """Yield what is worse than the lock or beyond the limits."""
        yield from map(self._explained, self._found())

    def _explained(self, finding: GateFinding) -> GateFinding:
        """Add a note to a finding that may only be new because the lock does not know Inductor's guards.

        An older ctrace did not record these guards, and a lock does not say which ctrace wrote it.
        """
        if finding.site:
            by_inductor = finding.site.by_inductor
        else:
            by_inductor = finding.count in _WITH_RECOMPILES
        if not (self._is_known and by_inductor and self._state.by_inductor) or finding.kind not in _LOCK_LACKS:
            return finding
        return replace(finding, todo=finding.todo or _SINCE, by_inductor=True)

    def _found(self) -> Iterator[GateFinding]:
        worse = [*self._new_sites(), *self._more_times()]
        yield from worse
        yield from self._more(has_worse=bool(worse))
        yield from self._beyond_limits()
        # A run that ended early lacks counts for that reason, which is reported already.
        if self._seen.has_ended:
            yield from self._not_measured()
            yield from self._measured_before()

    def better(self) -> Iterator[str]:
        """Yield what could be removed from the lock."""
        yield from (gone_site(known.key) for known in self._gone)
        for site, known in self._matched.pairs:
            if site.times < known.times:
                yield f"{named(site.key)}: ×{site.times}, no longer ×{known.times}"
        for count, was in (self._baseline.counts if self._baseline else {}).items():
            now = self._state.counts.get(count)
            if now is not None and now < was and count not in OF_SITES:
                yield f"{NAMES[count]}: {now}, no longer {was}"

    def _new_sites(self) -> Iterator[GateFinding]:
        for site in self._matched.new:
            if self._is_new(site):
                yield GateFinding(FindingKind.NEW_SITE, new_site(site.key), site=site)

    def _is_new(self, site: Site) -> bool:
        if self._is_known:
            return not self._is_within(site)
        return self._is_strict and site.key.kind in _STRICT

    def _more_times(self) -> Iterator[GateFinding]:
        for site, known in self._matched.pairs:
            if site.times > known.times and not self._is_within(site):
                yield GateFinding(FindingKind.MORE_TIMES, named(site.key), site=site, was=known.times, now=site.times)

    def _more(self, *, has_worse: bool) -> Iterator[GateFinding]:
        for count, was in (self._baseline.counts if self._baseline else {}).items():
            now = self._state.counts.get(count)
            # A limit of the policy stands in for the number of the lock.
            if now is None or now <= was + self._let_pass(count) or count in OF_SITES or count in self._limits.most:
                continue
            if has_worse and count in _FOLLOWS:
                continue
            yield GateFinding(FindingKind.MORE, f"+{now - was} {NAMES[count]}", "", None, count, was, now)

    def _beyond_limits(self) -> Iterator[GateFinding]:
        for count, most in self._limits.most.items():
            now = self._counted(count)
            if now is None or now <= most:
                continue
            sites = []
            # With an entry in the lock, the sites beyond it are reported by themselves.
            if not self._is_known:
                sites = self._not_passed(count)
            if not sites:
                yield GateFinding(FindingKind.LIMIT, NAMES[count], "", None, count, most, now)
            for site in sites:
                yield GateFinding(FindingKind.LIMIT, named(site.key), site=site, count=count, was=most, now=now)
        least, coverage = self._limits.coverage, self._state.coverage
        if least is not None and coverage is not None and coverage < least:
            yield GateFinding(FindingKind.LIMIT, "coverage", "", None, None, least, coverage)

    def _not_measured(self) -> Iterator[GateFinding]:
        missing: dict[str, Count | None] = {
            NAMES[count]: count for count in self._limits.most if self._state.counts.get(count) is None
        }
        if self._limits.coverage is not None and self._state.coverage is None:
            missing |= {"coverage": None}
        for what, count in missing.items():
            todo = f"limit it only where ctrace measures it: {_NEEDS.get(count, _NEEDED)}"
            yield GateFinding(FindingKind.NOT_MEASURED, f"{what}: limited by the policy, but not measured", todo)

    def _measured_before(self) -> Iterator[GateFinding]:
        """Yield counts that the lock has and this run lacks. Skip logs from elsewhere, which have fewer counts."""
        known: Mapping[Count, int] = {}
        if self._baseline and self._seen.job.known_as is None:
            known = self._baseline.counts
        of_code: set[Count] = set()
        if self._state.job.target != CPU:
            # On the CPU, code is generated only if a limit needs it.
            of_code = {Count.KERNELS}
        for count in (Count.EAGER_OPS, *of_code):
            if count in known and count not in self._state.counts and count not in self._limits.most:
                todo = "see ctrace explain; if this is intended, run ctrace check --update to remove it"
                yield GateFinding(FindingKind.NOT_MEASURED, f"{NAMES[count]}: in the lock, but not measured now", todo)

    def _let_pass(self, count: Count) -> int:
        """Return by how much a count may exceed the lock: by the cost of sites that are allowed but not in the lock."""
        within = [site for site in self._matched.new if self._is_within(site)]
        costs = [site.cost for site in (*within, *(site for site, _ in self.allowed))]
        match count:
            case Count.GRAPHS:
                return sum(cost.graphs for cost in costs)
            case Count.EAGER_OPS:
                return sum(cost.ops or 0 for cost in costs)
            case _:
                return 0

    def _is_within(self, site: Site) -> bool:
        """Whether the policy limits the count of a site, and the count is within the limit."""
        count = count_of(site.key)
        most = None
        if count is not None:
            most = self._limits.most.get(count)
        return count is not None and most is not None and (self._counted(count) or 0) <= most

    def _counted(self, count: Count) -> int | None:
        """Return a count, without the sites that the policy allows."""
        now = self._state.counts.get(count)
        if now is None or count not in OF_SITES:
            return now
        return sum(site.times if count is Count.RECOMPILES else site.places for site in self._not_passed(count))

    def _not_passed(self, count: Count) -> list[Site]:
        """Return the sites of a count that no policy entry allows."""
        return [each for each in self._state.sites if count_of(each.key) is count and each.key not in self._allowed]


Wrong = Sequence[tuple[JobKey, CtraceError]]


def judged(
    seen: Sequence[SeenJob],
    policy: CheckPolicy,
    lock: Lock,
    today: date,
    *,
    wrong: Wrong = (),
    is_whole: bool = True,
    seconds: float = 0.0,
) -> CheckOutcome:
    """Judge all jobs of a check.

    `wrong` has the jobs that cannot run. `is_whole` says whether the check covers all models of the policy: only then
    can it report missing models and useless allow entries.
    """
    keys = [each.job.known_as or each.job.key for each in seen] + [key for key, _ in wrong]
    # A log that does not name its torch is reported as a doubt.
    versions = sorted({each.state.torch for each in seen if each.state is not None} - {""})
    vanished = {}
    if is_whole:
        vanished = _vanished(lock, versions, keys)
    moved = _moved(lock, versions, keys, vanished, seen)
    judge = Judge(policy, lock, today, moved)
    checked = [judge.checked(each) for each in seen]
    checked += [
        CheckedJob(key, findings=(GateFinding(FindingKind.WRONG, error.what, error.todo),)) for key, error in wrong
    ]
    taken = {known.model for known in moved.values()}
    missing = [model for model in vanished if model not in taken]
    return CheckOutcome(
        policy=policy,
        lock=lock,
        # Jobs end in any order; the report must not change with it.
        checked=tuple(sorted(checked, key=lambda each: each.job)),
        findings=(*_nothing(keys), *_no_sections(lock, versions), *map(_gone, missing)),
        notes=(
            *_other_torch(lock, versions),
            *_left_out(seen),
            *_notes(policy, checked, moved, today, is_whole=is_whole),
        ),
        vanished=tuple(vanished),
        moved=moved,
        torch=", ".join(versions),
        seconds=seconds,
        inductor_guards=all(each.job.options.inductor_guards for each in seen),
    )


def _vanished(lock: Lock, versions: Iterable[str], keys: Iterable[JobKey]) -> dict[str, None]:
    """Return the models that are in the lock for these torch versions but not in the check."""
    there = {key.model for key in keys}
    known = {key.model for version in versions for key in lock.sections.get(version, {}) if key.is_of_policy}
    return dict.fromkeys(model for model in sorted(known) if model not in there)


def _moved(
    lock: Lock, versions: Iterable[str], keys: Iterable[JobKey], vanished: Iterable[str], seen: Sequence[SeenJob]
) -> Mapping[JobKey, JobKey]:
    """Map jobs to their old keys in the lock, for models whose file was moved or renamed.

    A file was moved if one model vanished and one new model has the same file name. It was renamed if one model of a
    folder vanished and one new model there has the results that the lock has for the old one.
    """
    known = {key.model for version in versions for key in lock.sections.get(version, {})}
    jobs = list(keys)
    came = {key.model for key in jobs} - known
    # By the file's name first, which needs no results: a renamed file is recognized by these alone.
    was = _alike(came, vanished, lambda path: path.name)
    rest = [model for model in vanished if model not in was.values()]
    renamed = _alike(came - set(was), rest, lambda path: str(path.parent))
    was |= {new: old for new, old in renamed.items() if _is_shown(new, old, lock, seen)}
    return {key: JobKey(was[key.model], key.scenario, key.target) for key in jobs if key.model in was}


def _alike(came: Iterable[str], gone: Iterable[str], by: Callable[[PurePosixPath], str]) -> dict[str, str]:
    """Pair a new model with a vanished one, where there is exactly one of each."""
    new, old = (_grouped(models, by) for models in (came, gone))
    # Of several, nothing says which became which.
    return {new[each][0]: old[each][0] for each in new if len(new[each]) == len(old.get(each, ())) == 1}


def _grouped(models: Iterable[str], by: Callable[[PurePosixPath], str]) -> dict[str, list[str]]:
    return grouped(models, lambda each: by(PurePosixPath(each)))


def _is_shown(new: str, old: str, lock: Lock, seen: Sequence[SeenJob]) -> bool:
    """Whether the results of a model equal the lock's entry for another model."""
    jobs = [each for each in seen if each.job.key.model == new]
    return bool(jobs) and all(_is_same(each, lock, old) for each in jobs)


def _is_same(seen: SeenJob, lock: Lock, old: str) -> bool:
    state, key = seen.state, seen.job.key
    known = None
    if state:
        known = lock.sections.get(state.torch, {}).get(JobKey(old, key.scenario, key.target))
    if state is None or known is None:
        return False
    found = matched(state.sites, known.sites)
    has_as_many = all(state.counts.get(count) == number for count, number in known.counts.items())
    return has_as_many and not found.new and not found.gone and all(now.times == was.times for now, was in found.pairs)


def _nothing(keys: Iterable[JobKey]) -> Iterator[GateFinding]:
    if not list(keys):
        todo = "name models in the policy, or on the command line"
        yield GateFinding(FindingKind.WRONG, "there is no model to check", todo)


def _gone(model: str) -> GateFinding:
    todo = "if this is intended, run ctrace check --update to remove it"
    return GateFinding(FindingKind.VANISHED, f"{model} is in the lock but no longer in the policy", todo)


def _no_sections(lock: Lock, versions: Iterable[str]) -> Iterator[GateFinding]:
    for version in versions:
        if lock.sections and version not in lock.sections:
            what = f"{lock.file or 'the lock'} has no section for torch {version}, only for {', '.join(lock.sections)}"
            yield GateFinding(
                FindingKind.NO_SECTION, what, "run ctrace check --update with this torch, and commit the lock"
            )


def _other_torch(lock: Lock, versions: Iterable[str]) -> Iterator[str]:
    """Note why a torch that the lock lacks may compile otherwise than the nearest one that it has."""
    for version in versions:
        releases = {release: known for known in lock.sections if (release := release_of(known)) is not None}
        release = release_of(version)
        if release is None or not releases or release in releases:
            continue
        # A release of the same major version is nearer than any other.
        nearest = min(releases, key=lambda known: (known[0] != release[0], abs(known[1] - release[1])))
        for each in changed_counts(version, releases[nearest]):
            yield f"torch {version} may compile otherwise than {releases[nearest]}: {each.range}, {_within(each.what)}"


def _within(sentence: str) -> str:
    """Return a sentence as a part of another: without the full stop, and lower case if it begins with a word."""
    first, _, rest = sentence.removesuffix(".").partition(" ")
    return f"{first.lower() if first.istitle() else first} {rest}"


def _left_out(seen: Iterable[SeenJob]) -> Iterator[str]:
    """Note for which jobs recompilations may be hidden, because Inductor's guards were not recorded."""
    left = [each for each in seen if not each.job.options.inductor_guards]
    if not left:
        return
    hidden = [(each.job.key, each.state.not_lowered) for each in left if each.state and each.state.not_lowered]
    if hidden:
        met = "recompilations that they cause are not shown"
    else:
        met = "no graph has symbolic sizes, so none is missing"
    yield f"as configured, guards that Inductor adds to graphs with symbolic sizes are not recorded: {met}"
    for key, number in hidden:
        graphs = "1 graph with symbolic sizes was"
        if number != 1:
            graphs = f"{number} graphs with symbolic sizes were"
        yield f"{key}: {graphs} not lowered; ctrace explain may show more recompilations"


def _notes(
    policy: CheckPolicy, checked: Iterable[CheckedJob], moved: Mapping[JobKey, JobKey], today: date, *, is_whole: bool
) -> Iterator[str]:
    jobs = list(checked)
    for now, was in {key.model: known.model for key, known in moved.items()}.items():
        yield f"{now} is treated as {was} in the lock; ctrace check --update records the new name"
    new = sorted({each.job.model for each in jobs if each.is_new and each.job not in moved})
    if new:
        are = "are" if len(new) > 1 else "is"
        yield f"{', '.join(new)} {are} not in the lock; ctrace check --update adds {'them' if len(new) > 1 else 'it'}"
    yield from (f"{each.job}: {note}" for each in jobs if each.state is not None for note in each.state.notes)
    if is_whole:
        sites = [site.key for each in jobs if each.state is not None for site in each.state.sites]
        # A job that was not judged may have the site of an entry.
        yield from useless(policy.allow, sites, today, are_all=all(map(is_judged, jobs)))
