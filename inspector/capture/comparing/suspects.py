"""Find by experiment which changes of the world explain why compiled results differ from eager."""

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

from ctrace.inspector.capture.state.world import Change, Facts, World

Experiment = Callable[[list[Change]], bool]
"""Restores old values, calls the model in eager, and returns whether the result equals the compiled call's."""

_MOST_TRIALS = 60


class _TrialsUsedUp(Exception):  # noqa: N818 - not an error but the end of a search
    """More trials would take too long."""


def culprits(now: World, earlier: list[Facts], experiment: Experiment) -> list[Change]:
    """Return a smallest set of changes that explains the difference; return an empty one if none does.

    Try the newest of the earlier worlds first: a cache entry may have been compiled in any of them.
    """
    trials = _counted(experiment)
    tried: set[tuple[tuple[str, Any], ...]] = set()
    try:
        for facts in reversed(earlier):
            for group in _groups(now.differing(facts)):
                named = tuple((change.path, _key(change.was)) for change in group)
                if named not in tried and trials(group):
                    return _smallest(group, trials)
                tried.add(named)
    except _TrialsUsedUp:
        pass
    return []


def _key(value: Any) -> Any:
    """Return what distinguishes an old value from others; a class of the program may be unable to be compared."""
    return (type(value), value) if type(value) in (bool, int, float, str, bytes) else id(value)


def _counted(experiment: Experiment) -> Experiment:
    left = _MOST_TRIALS

    def trial(changes: list[Change]) -> bool:
        nonlocal left
        left -= 1
        if left < 0:
            raise _TrialsUsedUp
        return experiment(changes)

    return trial


def _groups(changes: list[Change]) -> Iterator[list[Change]]:
    """Return the sets of changes to try: all, then those of each kind, then each alone.

    Undoing a change that a guard protects may hide what the others explain.
    """
    if not changes:
        return
    yield changes
    by_kind = sorted(changes, key=lambda change: change.container.kind)
    for _, members in groupby(by_kind, key=lambda change: change.container.kind):
        yield list(members)
    yield from ([change] for change in changes)


def _smallest(changes: list[Change], trial: Experiment) -> list[Change]:
    """Drop the changes that the explanation does not need: halves first, then quarters, down to single changes."""
    size = len(changes) // 2
    try:
        while size:
            for start in range(0, len(changes), size):
                rest = changes[:start] + changes[start + size :]
                if rest and trial(rest):
                    changes = rest
                    break
            else:
                size //= 2
            size = min(size, len(changes) // 2)
    except _TrialsUsedUp:
        pass
    return changes
