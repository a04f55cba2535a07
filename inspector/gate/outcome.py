"""All jobs of a check together: each judged, and what no single one shows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import PurePosixPath

from ctrace.inspector.errors import CtraceError
from ctrace.inspector.gate.allowing import useless
from ctrace.inspector.gate.judge import Judge
from ctrace.inspector.gate.model import (
    Checked,
    Finding,
    FindingKind,
    JobKey,
    Lock,
    Outcome,
    Policy,
    Seen,
)
from ctrace.inspector.gate.trust import is_judged

Wrong = Sequence[tuple[JobKey, CtraceError]]


def judged(
    seen: Sequence[Seen],
    policy: Policy,
    lock: Lock,
    today: date,
    *,
    wrong: Wrong = (),
    is_whole: bool = True,
    seconds: float = 0.0,
) -> Outcome:
    """Judge all jobs of a check.

    `wrong` are jobs that cannot run. `is_whole` says whether all models of the policy are among them: only then can
    one be missing, and an allow entry be of no use.
    """
    keys = [each.job.known_as or each.job.key for each in seen] + [key for key, _ in wrong]
    versions = sorted({each.state.torch for each in seen if each.state is not None} - {""})
    vanished = _vanished(lock, versions, keys) if is_whole else {}
    moved = _moved(lock, versions, keys, vanished)
    judge = Judge(policy, lock, today, moved)
    checked = [judge.checked(each) for each in seen]
    checked += [Checked(key, findings=(Finding(FindingKind.WRONG, error.what, error.todo),)) for key, error in wrong]
    taken = {known.model for known in moved.values()}
    missing = [model for model in vanished if model not in taken]
    return Outcome(
        policy,
        lock,
        tuple(sorted(checked, key=lambda each: each.job)),
        (*_nothing(keys), *_no_sections(lock, versions), *map(_gone, missing)),
        tuple(_notes(policy, checked, moved, today, is_whole=is_whole)),
        tuple(vanished),
        moved,
        ", ".join(versions),
        seconds,
    )


def _vanished(lock: Lock, versions: Iterable[str], keys: Iterable[JobKey]) -> dict[str, None]:
    """Give the models that the lock knows for these versions of torch, and the check does not."""
    there = {key.model for key in keys}
    known = sorted({key.model for version in versions for key in lock.sections.get(version, {})})
    return dict.fromkeys(model for model in known if model not in there)


def _moved(
    lock: Lock, versions: Iterable[str], keys: Iterable[JobKey], vanished: Iterable[str]
) -> Mapping[JobKey, JobKey]:
    """Find models that the lock knows by the path that their file had: one of a name vanished, and one came."""
    known = {key.model for version in versions for key in lock.sections.get(version, {})}
    gone, moved, every = list(vanished), {}, list(keys)
    came = {key.model for key in every} - known
    for key in every:
        here, there = (_of_name(key.model, models) for models in (came, gone))
        if key.model in came and len(here) == len(there) == 1:
            moved[key] = JobKey(there[0], key.scenario, key.target)
    return moved


def _of_name(model: str, models: Iterable[str]) -> list[str]:
    return [each for each in models if PurePosixPath(each).name == PurePosixPath(model).name]


def _nothing(keys: Iterable[JobKey]) -> Iterator[Finding]:
    if not list(keys):
        todo = "name models in the policy, or on the command line"
        yield Finding(FindingKind.WRONG, "there is no model to check", todo)


def _gone(model: str) -> Finding:
    todo = "if that is wanted, ctrace check --update forgets it"
    return Finding(FindingKind.VANISHED, f"{model} is in the lock, and no model of the policy any more", todo)


def _no_sections(lock: Lock, versions: Iterable[str]) -> Iterator[Finding]:
    for version in versions:
        if lock.sections and version not in lock.sections:
            what = f"{lock.file or 'the lock'} says nothing of torch {version}: it knows {', '.join(lock.sections)}"
            yield Finding(FindingKind.NO_SECTION, what, "run ctrace check --update with it, and commit the lock")


def _notes(
    policy: Policy, checked: Iterable[Checked], moved: Mapping[JobKey, JobKey], today: date, *, is_whole: bool
) -> Iterator[str]:
    every = list(checked)
    for now, was in {key.model: known.model for key, known in moved.items()}.items():
        yield f"{now} is taken for {was} of the lock; ctrace check --update writes it down"
    new = sorted({each.job.model for each in every if each.is_new and each.job not in moved})
    if new:
        are = "are" if len(new) > 1 else "is"
        yield f"{', '.join(new)} {are} not in the lock; ctrace check --update adds {'them' if len(new) > 1 else 'it'}"
    if is_whole:
        sites = [site.key for each in every if each.state is not None for site in each.state.sites]
        yield from useless(policy.allow, sites, today, are_all=all(map(is_judged, every)))
