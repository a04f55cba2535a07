"""Look up why a gb id has no advice, and which versions of torch have it."""

from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

_FOLDER = Path(__file__).parent
_NEVER = "none"


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


def unadvised_ids() -> tuple[str, ...]:
    """List the gb ids of the kinds `internal` and `plain`."""
    kinds = _lists()
    return (*kinds["internal"], *kinds["plain"])


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
    import yaml  # slow to import, and only `--explain` needs these tables

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load((_FOLDER / f"{name}.yaml").read_text(encoding="utf-8"), loader)
