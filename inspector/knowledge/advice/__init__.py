"""Advice on breaks, skips and causes as data: YAML tables with one entry per key.

`breaks/` has a file for each subject, with keys such as `GB0170`, `GB0170/assert` (that gb id, and the user's code is
an assert) and `print` (the user's code is a print, whatever torch calls it). Gb ids are those of torch's
`_dynamo/graph_break_registry.json` (2.11 to 2.15). `before` and `after` are the body of a function of a tensor x, or a
program with a function `forward`; the tests compile them. `unadvised.yaml` covers the ids that have no entry,
`versions.yaml` says which versions of torch have an id.
`skips.yaml` has the rules by which Dynamo skips a function.
`causes.yaml` has the kinds of causes of recompilations, such as `size`, and their special cases, such as
`size/parameter`. `fusion.yaml` says why two nodes did not become one kernel, with the pattern of torch's reason,
`attention.yaml` why attention was not fused, `dangers.yaml` why compiled results may differ from eager.

`entries` returns a table. The tables are long, and a run needs few of their entries. So a table splits its text at the
keys, which is fast, and parses an entry at the first access.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.facts.findings import Advice

# A top-level key, alone on its line. Comments and indented lines are no keys.
_KEY = re.compile(r"^(?![#\s])(?P<key>[^:\n]+):[ \t]*\n", re.MULTILINE)


Value = TypeVar("Value")
_NEVER = "none"


class LazyTable(Mapping[str, Value], Generic[Value]):
    """The entries of some YAML files, keyed by top-level key; each such key must be alone on its line."""

    def __init__(self, files: tuple[Path, ...], make: Callable[[dict[str, Any]], Value]) -> None:
        self._make = make
        self._texts: dict[str, str] = {}
        self._made: dict[str, Value] = {}
        for file in files:
            text = file.read_text(encoding="utf-8")
            keys = list(_KEY.finditer(text))
            # An entry ends where the next key stands; comments between them are parsed with it, and mean nothing to
            # YAML.
            ends = [key.start() for key in keys[1:]] + [len(text)]
            for key, end in zip(keys, ends, strict=True):
                self._texts[key["key"].strip('"')] = text[key.end() : end]

    def __getitem__(self, key: str) -> Value:
        if key not in self._made:
            self._made[key] = self._make(_parse(self._texts[key]))
        return self._made[key]

    def __contains__(self, key: object) -> bool:
        return key in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def _parse(text: str) -> dict[str, Any]:
    import yaml  # slow to import, and a model without findings does not need it

    data: dict[str, Any] = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return data


_FOLDER = Path(__file__).parent


class AdviceEntry(Struct, frozen=True):
    """One piece of advice.

    In `why` and `fix`, `{it}` stands for the user's expression; in `switch`, `{method}` stands for a logger's method.
    """

    JSON: ClassVar[str] = "title reason=why fix advice"
    title: str
    why: str
    fix: str = ""
    it: str = "it"
    """The text that replaces `{it}` if the expression's text is not known."""
    before: str = ""
    after: str = ""
    switch: str = ""
    risk: str = ""
    shows: str = ""
    """The detail of the run to add: torch's `explanation` or `context`, the `loops` of two nodes, or nothing."""
    expected: str = ""
    """Why a cause of a recompilation is expected; empty if it is not."""
    breaks_on: str = ""
    """The torch versions in which the tests saw `before` break with this gb id; empty for all tested versions."""
    pattern: str = ""
    """A regular expression for the beginning of torch's reason; empty if torch logs none."""

    @property
    def advice(self) -> Advice:
        """The code and the switch."""
        return Advice(self.before, self.after, self.switch, self.risk)

    def about(self, expression: str, place: str = "") -> "AdviceEntry":
        """Insert an expression into `why` and `fix`, and where it stands if that is not the line that is shown."""
        if expression:
            # In backquotes, which all reports show as code.
            named = f"`{expression}`"
        else:
            named = self.it
        if place:
            named = f"{named} in {place}"
        why, fix = (text.replace("{it}", named) for text in (self.why, self.fix))
        # A sentence may begin with `{it}`, whose replacement is in lower case.
        return replace(self, why=why[:1].upper() + why[1:], fix=fix[:1].upper() + fix[1:])

    def calling(self, method: str) -> "AdviceEntry":
        """Insert a logger's method into `switch`; without a method, drop a switch that needs one."""
        if "{method}" not in self.switch:
            return self
        switch, risk = (self.switch.replace("{method}", method), self.risk) if method else ("", "")
        return replace(self, switch=switch, risk=risk)


@cache
def entries(table: str) -> Mapping[str, AdviceEntry]:
    """Open a table: `breaks`, `skips`, `causes`, `attention`, `dangers` or `fusion`."""
    return LazyTable(files_of(table), lambda fields: AdviceEntry(**fields))


def files_of(table: str) -> tuple[Path, ...]:
    """List the files of a table; the files of `breaks` are named after their subject."""
    folder = _FOLDER / table
    if folder.is_dir():
        return tuple(sorted(folder.glob("*.yaml")))
    return (_FOLDER / f"{table}.yaml",)


def advice_on_break(gb: Iterable[str], kind: str) -> AdviceEntry | None:
    """Find the most specific entry for some gb ids and a kind of construct."""
    known = entries("breaks")
    ids = tuple(gb)
    # From the most special: torch's id with the user's construct, the construct whatever torch calls it, then the id.
    keys = [*(f"{id_}/{kind}" for id_ in ids), kind, *ids]
    return next((known[key] for key in keys if key in known), None)


def advice_on_cause(kind: str, case: str) -> AdviceEntry:
    """Find the entry for a cause: the entry of its special case, else of its kind, else `other`."""
    known = entries("causes")
    keys = (f"{kind}/{case}", kind, "other")
    return next(known[key] for key in keys if key in known)


def advice_on_refusal(reason: str) -> str:
    """Return the key of the first entry whose pattern matches torch's reason not to fuse two nodes."""
    known = entries("fusion").items()
    # The first match counts, so an entry with a wider pattern stands further down in the file.
    return next((key for key, entry in known if entry.pattern and re.match(entry.pattern, reason)), "unmapped")


class Unadvised(Struct, frozen=True):
    """Why ctrace has no advice for a gb id."""

    kind: str
    """`internal` (a check of torch's own state), `plain` (torch's text says it all) or `retired` (no longer raised)."""
    line: str


class Lifetime(Struct, frozen=True):
    """The minor versions of torch from 2.11 to 2.15 that have a gb id."""

    first: str
    last: str = ""
    """The last version whose registry has the id; empty if the newest version's registry has it."""
    raised_until: str = ""
    """The last version whose code raises the id; empty if the newest version raises it, `none` if no version does."""

    def absence(self, torch: str) -> str:
        """Say which versions of torch have the id; empty if the given version, such as 2.13, has it."""
        if _number(torch) < _number(self.first):
            return f"torch {self.first} and newer have it"
        if self.last and _number(torch) > _number(self.last):
            return f"torch {self.last} and older have it"
        return ""

    def retirement(self) -> str:
        """Say up to which version torch raised the id; empty if torch still raises it."""
        if self.raised_until == _NEVER:
            return "Torch 2.11 to 2.15 do not raise this id; their registries still list it."
        if self.raised_until:
            return f"Torch raised this id until {self.raised_until}; its registry still lists it."
        return ""


def unadvised(gb: str) -> Unadvised | None:
    """Return why a gb id has no advice, or None if it has advice or is newer than the lists."""
    kinds = _lists()
    for kind in ("internal", "plain"):
        if gb in kinds[kind]:
            return Unadvised(kind, kinds[kind][gb])
    life = lifetime(gb)
    if life and life.raised_until:
        return Unadvised("retired", life.retirement())
    return None


def lifetime(gb: str) -> Lifetime | None:
    """Return the versions that have a gb id, or None if no version from 2.11 to 2.15 has it."""
    return _lifetimes().get(gb)


def known_ids() -> tuple[str, ...]:
    """List the gb ids of torch 2.11 to 2.15."""
    return tuple(_lifetimes())


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


@cache
def _lists() -> dict[str, dict[str, str]]:
    kinds: dict[str, dict[str, str]] = _read("unadvised")
    return kinds


@cache
def _lifetimes() -> dict[str, Lifetime]:
    data: dict[str, dict[str, str]] = _read("versions")
    tables = {name: {gb: version for version, ids in each.items() for gb in ids.split()} for name, each in data.items()}
    first, last, until = tables["first"], tables["last"], tables["raised_until"]
    return {gb: Lifetime(version, last.get(gb, ""), until.get(gb, "")) for gb, version in sorted(first.items())}


def _read(name: str) -> Any:
    return _parse((_FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
