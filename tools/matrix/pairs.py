"""The pairs of a torch and a Python that ctrace supports, and those that a command line names."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ctrace.inspector.errors import TargetError, did_you_mean
from ctrace.inspector.knowledge.releases import RELEASES

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Pair:
    """A release of torch and a Python that it supports."""

    torch: str
    triton: str
    python: str

    @property
    def name(self) -> str:
        """The name in `--only` and in the data."""
        return f"{self.torch}/{self.python}"


def pairs() -> list[Pair]:
    """Return every supported pair, the newest torch first."""
    return [Pair(each.torch, each.triton, python) for each in reversed(RELEASES) for python in each.pythons]


def chosen(only: Sequence[str]) -> list[Pair]:
    """Return the pairs that `--only` names: `2.15`, `2.15.0`, `2.15/3.14` or `/3.14`.

    Raises:
        TargetError: a name fits no pair.
    """
    known = pairs()
    if not only:
        return known
    found: list[Pair] = []
    for name in only:
        torch, _, python = name.partition("/")
        fitting = [one for one in known if _fits(one.torch, torch) and _fits(one.python, python)]
        if not fitting:
            names = [*dict.fromkeys(one.torch for one in known), *(one.name for one in known)]
            raise TargetError(f"--only {name}: no supported torch and Python have this name", did_you_mean(name, names))
        found += [one for one in fitting if one not in found]
    return found


def _fits(version: str, prefix: str) -> bool:
    return not prefix or version == prefix or version.startswith(prefix + ".")
