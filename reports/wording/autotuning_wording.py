"""Autotuning in words: who won, by how much, and what became of the other choices."""

import re
from collections.abc import Sequence

from ctrace.inspector.facts.autotuning import Choice, ChoiceStatus, TimeSpread, TunedOperation
from ctrace.inspector.findings.autotuning.autotuning_view import Margin, Noise, margin, timed, winner
from ctrace.reports import format as fmt
from ctrace.reports.wording.durations import duration

_NOISE = {
    Noise.BEYOND: "beyond the spread of their runs",
    Noise.WITHIN: "within the spread of their runs: either may be faster",
    Noise.NOT_KNOWN: "noise not known: torch kept one time for each",
}
_STATUS = {
    ChoiceStatus.TIMED: "",
    ChoiceStatus.NOT_TIMED: "not timed",
    ChoiceStatus.FAILED_TO_COMPILE: "does not compile",
    ChoiceStatus.FAILED_TO_RUN: "failed to run",
    ChoiceStatus.DOES_NOT_FIT: "does not fit",
}
_NAME = 40
_SETTING = re.compile(r", (?=\w+=)")


def title(each: TunedOperation) -> str:
    """Write an operation as torch's log does: `mm(64x256, 256x512) float32`."""
    shapes = ", ".join("x".join(one.shape) for one in each.inputs)
    dtypes = dict.fromkeys(one.dtype for one in each.inputs if one.dtype)
    return fmt.one_line(f"{each.op}({shapes}) {', '.join(dtypes)}", 300)


def answer(each: TunedOperation) -> str:
    """Say which choice won, and by how much."""
    first, by = winner(each.choices), margin(each.choices, each.unnamed)
    if first is None:
        if each.is_on is None and each.choices:
            return f"the generated code uses {name(each.choices[0])}; other choices are not known"
        if len(each.choices) == 1:
            return f"1 choice, {name(each.choices[0])}: nothing to time"
        used = f"; the generated code uses {fmt.cut(fmt.one(each.taken), _NAME)}" if each.taken else ""
        return f"{fmt.count(len(each.choices), 'choice')}, not timed{used}"
    if by is None:
        named = len(timed(each.choices))
        others = f"; torch's log names only {named} of {each.unnamed + named} choices" if each.unnamed else ""
        return f"{name(first)} takes {duration(first.seconds)}{others}"
    return f"{name(first)} wins: {margin_text(by)}"


def margin_text(by: Margin) -> str:
    """Write `cpp_1 takes 72% longer (beyond the spread of their runs)`."""
    return f"{fmt.cut(fmt.one(by.of_next), _NAME)} takes {_longer(by.part)} ({_NOISE[by.noise]})"


def _longer(part: float) -> str:
    if part < 0.0005:
        return "as long"
    if part >= 1:
        return f"{part + 1:.0f} times as long" if part >= 9 else f"{part + 1:.1f} times as long"
    return f"{part:.1%} longer" if part < 0.095 else f"{part:.0%} longer"


def taken(each: TunedOperation) -> str:
    """Say which choice the code uses, where that is not the fastest one; empty otherwise."""
    first = winner(each.choices)
    if each.taken is None or first is None or each.taken == first.name:
        return ""
    why = "it was faster together with the ops fused into it" if each.is_fused else "torch gives no reason"
    return f"The code uses {fmt.one(each.taken)}: {why}"


def costs(each: TunedOperation) -> str:
    """Say what the sweep cost."""
    if each.is_cached:
        return "Times from torch's cache: an earlier sweep of the same operation"
    if each.seconds is None or not each.is_swept:
        return ""
    parts = [
        f"{duration(seconds)} {what}"
        for seconds, what in ((each.compile_seconds, "compiling"), (each.timing_seconds, "timing"))
        if seconds is not None and seconds >= 0.0005
    ]
    inside = f": {' and '.join(parts)}" if len(parts) > 1 else ""
    return f"The sweep of {fmt.count(len(timed(each.choices)), 'choice')} took {duration(each.seconds)}{inside}"


def name(choice: Choice) -> str:
    """Write a choice's name; torch's log has none for those that failed to compile."""
    return fmt.cut(fmt.one(choice.name or choice.configuration or "unnamed"), _NAME)


def configurations(choices: Sequence[Choice]) -> dict[str, str]:
    """Return what distinguishes each configuration, by name: the settings that not all of them share."""
    settings = {each.name: _SETTING.split(each.configuration) for each in choices if each.configuration}
    shared = set.intersection(*map(set, settings.values())) if len(settings) > 1 else set()
    return {name: fmt.one(", ".join(each for each in found if each not in shared)) for name, found in settings.items()}


def untried(each: TunedOperation) -> list[str]:
    """Say which templates torch did not try and why; those with the same reasons together."""
    by_reason: dict[tuple[str, ...], list[str]] = {}
    for one in each.untried:
        by_reason.setdefault(one.reasons, []).append(one.what)
    return [f"{', '.join(what)}: {'; '.join(reasons)}" for reasons, what in by_reason.items()]


def status(choice: Choice) -> str:
    """Say what became of a choice that has no time."""
    return _STATUS[choice.status]


def spread(found: TimeSpread | None) -> str:
    """Write the middle half of the runs: `112 to 117 µs`."""
    if found is None:
        return ""
    low, high = duration(found.low), duration(found.high)
    number, _, unit = low.rpartition(" ")
    return f"{number if high.endswith(f' {unit}') else low} to {high}"
