"""Judge all jobs of a check, and report what no single job shows."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import PurePosixPath

from ctrace.inspector.errors import CtraceError
from ctrace.inspector.features.check.gate_model import JobKey, Lock
from ctrace.inspector.features.check.judge import Judge
from ctrace.inspector.features.check.policy_model import CheckPolicy, useless
from ctrace.inspector.features.check.trust import is_judged
from ctrace.inspector.features.check.verdict import CheckedJob, CheckOutcome, FindingKind, GateFinding, SeenJob
from ctrace.inspector.findings.site_matching import matched
from ctrace.inspector.knowledge.releases import release_of
from ctrace.inspector.knowledge.version_differences import changed_counts

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
    versions = sorted({each.state.torch for each in seen if each.state is not None} - {""})
    vanished = _vanished(lock, versions, keys) if is_whole else {}
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
    was = _alike(came, vanished, lambda path: path.name)
    rest = [model for model in vanished if model not in was.values()]
    renamed = _alike(came - set(was), rest, lambda path: str(path.parent))
    was |= {new: old for new, old in renamed.items() if _is_shown(new, old, lock, seen)}
    return {key: JobKey(was[key.model], key.scenario, key.target) for key in jobs if key.model in was}


def _alike(came: Iterable[str], gone: Iterable[str], by: Callable[[PurePosixPath], str]) -> dict[str, str]:
    """Pair a new model with a vanished one, where there is exactly one of each."""
    new, old = (_grouped(models, by) for models in (came, gone))
    return {new[each][0]: old[each][0] for each in new if len(new[each]) == len(old.get(each, ())) == 1}


def _grouped(models: Iterable[str], by: Callable[[PurePosixPath], str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in models:
        found.setdefault(by(PurePosixPath(each)), []).append(each)
    return found


def _is_shown(new: str, old: str, lock: Lock, seen: Sequence[SeenJob]) -> bool:
    """Whether the results of a model equal the lock's entry for another model."""
    jobs = [each for each in seen if each.job.key.model == new]
    return bool(jobs) and all(_is_same(each, lock, old) for each in jobs)


def _is_same(seen: SeenJob, lock: Lock, old: str) -> bool:
    state, key = seen.state, seen.job.key
    known = lock.sections.get(state.torch, {}).get(JobKey(old, key.scenario, key.target)) if state else None
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
        graphs = "1 graph with symbolic sizes was" if number == 1 else f"{number} graphs with symbolic sizes were"
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
        yield from useless(policy.allow, sites, today, are_all=all(map(is_judged, jobs)))
