"""What to do about a break, a skip or a cause, as data: one YAML file each, one entry a key.

`breaks.yaml` has keys such as `GB0170`, `GB0170/assert` (that gb id, and the user's code is an assert) and `print` (the
user's code is a print, whatever torch calls it); `skips.yaml` has the rules by which Dynamo leaves a function alone;
`causes.yaml` has the kinds of causes of recompiles, such as `size`, and their special cases, such as `size/parameter`;
`fusion.yaml` has why two nodes did not become one kernel, each entry with the pattern of torch's own reason.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Entry:
    """One piece of advice. `{it}` in `why` and `fix` stands for the user's expression, `{method}` in `switch` for a
    logger's method.
    """

    title: str
    why: str
    fix: str = ""
    it: str = "it"
    """What to call the expression where its text is not known."""
    before: str = ""
    after: str = ""
    switch: str = ""
    risk: str = ""
    shows: str = ""
    """What says more about a single case: torch's `explanation` or `context`, the `loops` of two nodes, or nothing."""
    expected: str = ""
    """Why a cause of a recompile is normal, where it is."""
    pattern: str = ""
    """Regular expression for the beginning of torch's own reason, where there is one."""

    def about(self, expression: str) -> "Entry":
        """Name the user's expression."""
        named = f"`{expression}`" if expression else self.it
        why, fix = (text.replace("{it}", named) for text in (self.why, self.fix))
        return replace(self, why=why[:1].upper() + why[1:], fix=fix[:1].upper() + fix[1:])

    def calling(self, method: str) -> "Entry":
        """Name the method of a logger in the switch; without one, a switch that has to name it is left out."""
        if "{method}" not in self.switch:
            return self
        switch, risk = (self.switch.replace("{method}", method), self.risk) if method else ("", "")
        return replace(self, switch=switch, risk=risk)


@cache
def entries(table: str) -> dict[str, Entry]:
    """Load a table: `breaks`, `skips`, `causes`, `attention` or `fusion`."""
    return {key: Entry(**value) for key, value in _load(table).items()}


def advice_on_break(gb: Iterable[str], kind: str) -> Entry | None:
    """Find the entry for gb ids and a kind of construct, the more special one first."""
    known = entries("breaks")
    ids = tuple(gb)
    keys = [*(f"{id_}/{kind}" for id_ in ids), kind, *ids]
    return next((known[key] for key in keys if key in known), None)


def advice_on_cause(kind: str, case: str) -> Entry:
    """Find the entry for a cause: that of the special case, else of the kind, else of all others."""
    known = entries("causes")
    keys = (f"{kind}/{case}", kind, "other")
    return next(known[key] for key in keys if key in known)


def advice_on_refusal(reason: str) -> str:
    """Find the key of the entry for torch's reason not to fuse two nodes: the first whose pattern fits."""
    known = entries("fusion").items()
    return next((key for key, entry in known if entry.pattern and re.match(entry.pattern, reason)), "unmapped")


def _load(table: str) -> dict[str, dict[str, str]]:
    import yaml  # only when there is something to advise on: a healthy model's screen does not wait for it

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    data: dict[str, dict[str, str]] = yaml.load((_FOLDER / f"{table}.yaml").read_text(encoding="utf-8"), loader)
    return data
