"""What a repair of the source is: the place it is for, the text it writes, and the file that offers it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct


class Place(Struct, frozen=True):
    """Where a finding is, and the file as it stands on disk."""

    file: str
    """Absolute path of the user's file."""
    source: str
    """Text of the whole file."""
    line: int
    """The user's line of the finding, 1-based."""
    end_line: int | None
    function: str
    """Qualified name of the function, or ""."""
    kind: str
    """Kind of the root cause, or of the finding."""
    gb_id: str
    reason: str
    """torch's own text."""
    names: tuple[str, ...] = ()
    """Attributes and variables that the finding names."""


class Rewrite(Struct, frozen=True):
    """A new text of the file, to be tried."""

    source: str
    summary: str
    """One plain sentence: "Replace the branch on `x.sum() > 0` by torch.where."."""
    changes_arithmetic: bool = False
    """Results may round differently: eager is compared against a float64 reference, and the repair says so."""
    question: str | None = None
    """What only the author can decide; such a repair is offered as a choice and never combined on its own."""
    needs_inputs: tuple[str, ...] = ()
    """Conditions, as Python expressions at that line, whose both sides the proof must reach."""


class SourceRepair(Struct, frozen=True):
    """One file of the folder `source`: a kind of rewrite, and how to find where it applies."""

    name: str
    title: str
    find: Callable[[Place], Iterator[Rewrite]]
