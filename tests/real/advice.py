"""Judge the first line of "What to do" of each model: apply it as printed, and count before and after."""

import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from tests.real.verify import COUNTS, Expected, changed, counted, run_ctrace

_WIDE = 4000
"""A width at which no advice is folded."""


class Effect(StrEnum):
    """What a piece of advice does if it is applied as printed."""

    HELPS = "helps"
    RIGHT = "right"
    """Whether it says, correctly, that nothing needs to change."""
    NOTHING = "changes nothing"
    RAISES = "raises"
    WORSE = "worse"

    @property
    def is_good(self) -> bool:
        return self in (Effect.HELPS, Effect.RIGHT)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The effect of one model's first advice."""

    name: str
    line: str
    effect: Effect
    before: dict[str, Any]
    after: dict[str, Any]


def outcome(model: Expected) -> Outcome:
    """Get ctrace's advice, apply its edits from expected.yaml, and count with torch alone."""
    own = model.text
    line = first_line(model.name, own, model.options)
    before = _counts(model.name, own, model.options)
    if model.advice.get("nothing"):
        return Outcome(model.name, line, Effect.RIGHT, before, before)
    edits, options = model.advised
    after = _counts(model.name, changed(model.name, own, edits), [*model.options, *options])
    return Outcome(model.name, line, effect(before, after), before, after)


def first_line(name: str, text: str, options: list[str]) -> str:
    """Return the first item under "What to do" as `ctrace explain` prints it; empty if there is none."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.py"
        file.write_text(text, encoding="utf-8")
        screen = run_ctrace(["explain", file.name, *options], file.parent, COLUMNS=str(_WIDE))
    return first_item(screen)


def first_item(screen: str) -> str:
    """Return the line that follows the heading, without its number."""
    lines = iter(screen.splitlines())
    found = next((next(lines, "") for line in lines if line.strip() == "What to do"), "")
    return re.sub(r"^\s*(?:1\. )?", "", found).strip()


def effect(before: dict[str, Any], after: dict[str, Any]) -> Effect:
    """Compare counts. Better is: a lower total without a new break, a first graph, or a fixed error."""
    if after["error"]:
        return Effect.NOTHING if before["error"] else Effect.RAISES
    if before["error"] or before["graphs"] == 0 < after["graphs"]:
        return Effect.HELPS
    was, now = (sum(each[count] for count in COUNTS) for each in (before, after))
    if now > was or after["breaks"] > before["breaks"] or after["graphs"] == 0:
        return Effect.WORSE
    return Effect.HELPS if now < was else Effect.NOTHING


def differences(model: Expected, found: Outcome) -> Iterator[str]:
    """Yield the differences between an outcome and expected.yaml."""
    if model.advice["text"] not in found.line:
        yield f"{model.name}: prints {found.line!r} first, expected {model.advice['text']!r}"
    if not found.effect.is_good:
        yield f"{model.name}: {found.effect}: {_change(found)}: {found.line}"
    for what in COUNTS if not model.advice.get("nothing") else ():
        if found.after[what] != model.advice_after[what]:
            yield f"{model.name}: torch counts {what} {found.after[what]} after it, not {model.advice_after[what]}"


def table(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """Yield a line for each model, and the totals."""
    known = list(outcomes)
    for each in known:
        yield f"{each.name:22} {each.effect:16} {_change(each):22} {each.line}"
    totals = Counter(each.effect for each in known)
    yield f"{len(known)} models: " + ", ".join(f"{kind} {totals[kind]}" for kind in Effect)


def _change(found: Outcome) -> str:
    """Write graphs, breaks and recompilations before and after: "6/0/5 → 1/0/0"."""
    both = [_written(each) for each in (found.before, found.after)]
    return both[0] if found.effect is Effect.RIGHT else " → ".join(both)


def _written(counts: dict[str, Any]) -> str:
    return "raises" if counts["error"] else "/".join(str(counts[what]) for what in COUNTS)


def _counts(name: str, text: str, options: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.py"
        file.write_text(text, encoding="utf-8")
        return counted(file, options)
