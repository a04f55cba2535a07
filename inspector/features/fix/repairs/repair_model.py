"""A source repair: its place, the text that it writes, and the module that offers it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct


class RepairPlace(Struct, frozen=True):
    """Where a finding is, and the file as it stands on disk."""

    file: str
    """Absolute path of the user's file."""
    source: str
    """Text of the whole file."""
    line: int
    """The user's line of the finding, 1-based."""
    function: str
    """Qualified name of the function, or ""."""
    names: tuple[str, ...] = ()
    """Attributes and variables that the finding names."""


class SourceRewrite(Struct, frozen=True):
    """A new text of the file to try."""

    source: str
    summary: str
    """One plain sentence: "Replace the branch on `x.sum() > 0` by torch.where."."""
    changes_arithmetic: bool = False
    """Whether results may round differently: the proof then compares eager with a float64 reference."""
    question: str | None = None
    """What only the author can decide; such a repair is offered as a choice and never combined without an answer."""
    costs: str = ""
    """A question about the time of eager calls, where no time of the proof shows it."""
    needs_inputs: tuple[str, ...] = ()
    """Conditions, as Python expressions at that line; the proof must reach both sides of each."""


class SourceRepair(Struct, frozen=True):
    """One file of the folder `source`: a kind of rewrite, and how to find where it applies."""

    name: str
    title: str
    find: Callable[[RepairPlace], Iterator[SourceRewrite]]
