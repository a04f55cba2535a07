"""Sentences about an upgrade, for the screen, Markdown and SARIF."""

from collections.abc import Iterable

from ctrace.inspector.features.upgrade.upgrade_model import (
    Reason,
    ReasonKind,
    UpgradeChange,
    UpgradedModel,
    UpgradeDocument,
)
from ctrace.inspector.grouping import grouped
from ctrace.reports import format as fmt

_KINDS = {
    ReasonKind.CONFIG: "a default of torch's configuration",
    ReasonKind.TORCH: "torch's own code",
    ReasonKind.LIBRARY: "a package",
    ReasonKind.ENVIRONMENT: "an environment variable",
    ReasonKind.UNKNOWN: "reason not found",
}
# Chosen: torch and triton come first; a resolver moves up to dozens with them.
_MOST_PACKAGES = 8


def headword(document: UpgradeDocument) -> str:
    """Return the answer in one word."""
    changes = [change for model in document.models for change in model.changes]
    # First: it is an answer also if other models could not be compared.
    if any(each.worse for each in changes):
        return "worse"
    if document.equal is None:
        return "not known"
    if not changes:
        return "equal"
    if all(each.worse is False for each in changes):
        return "better"
    return "different"


def environments(document: UpgradeDocument) -> str:
    """Name what differs between the environments: `torch 2.13.0 → 2.15.0, triton 3.7.1 → 3.9.0`."""
    pairs = document.packages
    first = [name for name in ("torch", "triton") if name in pairs]
    names = [*first, *(name for name in pairs if name not in first)]
    changed = [name for name in names if None not in pairs[name]]
    texts = [f"{name} {pairs[name][0]} → {pairs[name][1]}" for name in changed]
    if document.before.python != document.after.python:
        texts.append(f"Python {document.before.python} → {document.after.python}")
    if single := len(names) - len(changed):
        texts.append(f"{fmt.count(single, 'package')} in one of them only")
    return fmt.listed(texts, _MOST_PACKAGES) or "the same versions of all packages"


def answer(document: UpgradeDocument) -> str:
    """Answer whether the upgrade is safe, in one sentence."""
    models = document.models
    changed = [each for each in models if each.changes]
    failed = [each for each in models if each.error is not None]
    worse = [change for each in models for change in each.worse]
    parts = []
    if changed:
        texts = f"{len(changed)} of {fmt.count(len(models), 'model')}"
        parts.append(f"{texts} changed: {_counted(change for each in changed for change in each.changes)}")
    elif not failed:
        parts.append(f"{fmt.count(len(models), 'model')}, no change")
    if worse:
        parts.append(f"{len(worse)} for the worse")
    if failed:
        parts.append(f"{fmt.count(len(failed), 'model')} could not be compared")
    return "; ".join(parts)


def _counted(changes: Iterable[UpgradeChange]) -> str:
    counts: dict[str, int] = {}
    for each in changes:
        counts[each.what] = counts.get(each.what, 0) + 1
    return ", ".join(f"{number} {name}" for name, number in counts.items())


def reason_text(reason: Reason) -> str:
    """Say what a reason is, in one line."""
    if reason.kind is ReasonKind.UNKNOWN:
        if reason.note:
            return f"{_KINDS[reason.kind]}: {reason.note}"
        return _KINDS[reason.kind]
    none = "not there" if reason.kind is ReasonKind.CONFIG else "nothing"
    values = f": {reason.before or none} → {reason.after or none}" if reason.before or reason.after else ""
    source = f" ({reason.source})" if reason.source and reason.source not in (reason.before, reason.after) else ""
    if reason.kind is ReasonKind.TORCH and reason.name == "torch":
        return f"torch itself{values}; the place in its source was not found"
    return f"{reason.kind} {reason.name}{values}{source}"


def by_reason(model: UpgradedModel) -> dict[Reason, list[UpgradeChange]]:
    """Group a model's changes by reason, those for the worse first."""
    return grouped(sorted(model.changes, key=lambda change: not change.worse), lambda each: each.reason)


def change_text(change: UpgradeChange) -> str:
    """Write a change in one line: what it is, where, and both sides."""
    sides = " → ".join(fmt.one_line(side, 110) for side in _differing(change.was, change.now) if side is not None)
    direction = {True: ", worse", False: ", better", None: ""}[change.worse]
    return f"{change.what} {change.how}{direction}: {change.where}: {sides}"


_SHARED = 60
"""How many letters two texts may share at the start before these are left out."""


def _differing(was: str | None, now: str | None) -> tuple[str | None, str | None]:
    """Leave out most of what two long texts share at the start, such as a guard on all of torch's state."""
    if was is None or now is None:
        return was, now
    pairs = enumerate(zip(was, now, strict=False))
    shared = next((at for at, (one, other) in pairs if one != other), min(len(was), len(now)))
    if shared <= _SHARED:
        return was, now
    first = was[: _SHARED // 2]
    at = shared - _SHARED // 4
    return f"{first}…{was[at:]}", f"…{now[at:]}"


def changed_numbers(model: UpgradedModel, *, every: bool = False) -> list[tuple[str, str, str]]:
    """Return the numbers that differ, or all, with both values; times and memory differ in any two runs."""
    # A line about them would stand under each model.
    noisy = ("guard cost", "peak memory", "compile time")
    return [
        (each.name, each.before or "not measured", each.after or "not measured")
        for each in model.numbers
        if every or (each.before != each.after and each.name not in noisy)
    ]
