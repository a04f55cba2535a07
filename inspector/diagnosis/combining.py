"""Several changes at once, where no single one of them gets rid of all causes: one may help only with another."""

from collections.abc import Iterable, Iterator

from ctrace.inspector.diagnosis.edits import is_disjoint
from ctrace.inspector.diagnosis.scene import Candidate, Scene
from ctrace.inspector.model.trial import Trial

_LEAST = 2


def combined(scene: Scene, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """Offer the most promising change for each cause, all in one trial; those whose own trial raised are left out."""
    parts = list(_parts(scene, candidates))
    if len(parts) < _LEAST:
        return
    first, *others = (part.short for part in parts)
    words = f"{first}; and {others[0]}" if len(others) == 1 else f"{first}; {'; '.join(others)}"
    causes = tuple(dict.fromkeys(id_ for part in parts for id_ in part.causes))
    trial = _merged([part.trial for part in parts if part.trial is not None])
    yield Candidate(
        f"Together: {words}.",
        causes,
        trial,
        only_checked=True,
        needs_backend=any(part.needs_backend for part in parts),
    )


def _parts(scene: Scene, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    covered: set[str] = set()
    taken: list[Trial] = []
    for each in sorted(candidates, key=lambda candidate: -candidate.worth):
        tried = scene.tried(each.trial)
        has_raised = tried is not None and tried.counts is None
        if not each.short or each.trial is None or has_raised or set(each.causes) <= covered:
            continue
        if any(_includes(known, each.trial) for known in taken):
            covered |= set(each.causes)
        elif all(is_disjoint(each.trial.edits, known.edits) for known in taken):
            covered |= set(each.causes)
            taken.append(each.trial)
            yield each


def _includes(whole: Trial, part: Trial) -> bool:
    """Whether a trial sets all that another one does, which changes nothing but settings."""
    return bool(part.settings) and set(part.settings) <= set(whole.settings) and not (part.edits or part.ignored)


def _merged(trials: list[Trial]) -> Trial:
    settings = dict(pair for each in trials for pair in each.settings)
    return Trial(
        settings=tuple(settings.items()),
        edits=tuple(edit for each in trials for edit in each.edits),
        ignored=tuple(dict.fromkeys(name for each in trials for name in each.ignored)),
    )
