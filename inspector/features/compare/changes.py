"""The result of a comparison: plain frozen records."""

from enum import StrEnum
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.facts.memory_facts import MemoryPeak
from ctrace.inspector.facts.wire import Integer
from ctrace.inspector.features.compare.worse_side import WorseSide


class What(StrEnum):
    """The kind of thing that differs."""

    VERDICT = "verdict"
    BREAK = "break"
    SKIP = "skip"
    RECOMPILE = "recompile"
    GRAPH = "graph"
    FUSION = "fusion"
    KERNEL = "kernel"
    GUARD = "guard"
    COVERAGE = "coverage"
    ACCURACY = "accuracy"
    MEMORY = "memory"
    TIME = "time"
    CACHE = "cache"


class ChangeKind(StrEnum):
    """How it differs."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


class Change(Struct, frozen=True):
    """One difference between two runs."""

    JSON: ClassVar[str] = "what change=how where was now detail follows"
    what: What
    how: ChangeKind
    where: str
    """A file and line, a function, or a name; `run` for the run as a whole."""
    was: str | None = None
    now: str | None = None
    detail: tuple[str, ...] = ()
    """Lines of a unified diff, for a kernel's source."""
    follows: tuple[str, ...] = ()
    """What differs only because of this, such as the bytes of kernels: a summary, then a line for each."""


class GrownLine(Struct, frozen=True):
    """What a line holds at the peaks of two runs."""

    JSON: ClassVar[str] = "where source was now kinds"
    where: str
    """`file:line` in the later run, or in the earlier one if only that has it; `no line of yours`: not known."""
    source: str
    """The line of code."""
    was: Integer
    """Bytes at the peak of the earlier run."""
    now: Integer
    """Bytes at the peak of the later run."""
    kinds: tuple[str, ...]
    """What it holds, such as `saved`, the largest first."""


class MemoryGrowth(Struct, frozen=True):
    """The peaks of two runs, and the lines that hold memory then."""

    JSON: ClassVar[str] = "was now lines"
    was: MemoryPeak
    now: MemoryPeak
    lines: tuple[GrownLine, ...] = ()
    """Those that grew most first."""


class UncomparedKind(Struct, frozen=True):
    """A kind that was not compared, and why."""

    what: What
    why: str


class RunDiff(Struct, frozen=True):
    """All differences between two runs."""

    JSON: ClassVar[str] = (
        "equal direction=judgement.direction why_unknown=judgement.why_unknown numbers=judgement.measures changes "
        "compared not_compared=left_out notes by_settings memory"
    )
    changes: tuple[Change, ...] = ()
    compared: tuple[What, ...] = ()
    """The kinds that both runs recorded and that were compared."""
    not_compared: tuple[tuple[What, str], ...] = ()
    """The kinds that were not compared, each with the reason."""
    notes: tuple[str, ...] = ()
    """How the environments of the runs differ, such as the version of torch, and what is not known about them."""
    judgement: WorseSide = WorseSide()
    """Which run compiled better."""
    by_settings: bool = False
    """Whether both runs compiled the same code with the same torch under other settings, so that kernels differ."""

    memory: MemoryGrowth | None = None
    """What grew; None: not both runs followed their memory."""

    @property
    def consequences(self) -> tuple[Change, ...]:
        """The changes that follow from other settings."""
        if self.by_settings:
            return tuple(each for each in self.changes if each.what is What.KERNEL)
        return ()

    @property
    def left_out(self) -> tuple[UncomparedKind, ...]:
        """The kinds that were not compared."""
        return tuple(UncomparedKind(what, why) for what, why in self.not_compared)

    @property
    def equal(self) -> bool:
        """Whether no difference was found in what both runs recorded."""
        return not self.changes


class DiffDocument(Struct, frozen=True):
    """What `ctrace diff` answers: the differences between two runs, and their names."""

    JSON: ClassVar[str] = "before after *found failed_on"
    before: str
    after: str
    found: RunDiff
    failed_on: tuple[What, ...] = ()
    """The kinds of changes for which the command exits with 1."""


def size_of(change: Change) -> int:
    """Count the things that a change is about: kernels of one graph that differ only in bytes are one change."""
    if change.what is What.KERNEL:
        return max(1, len(change.follows) - 1)
    return 1


def edited(what: What, where: str, was: str, now: str, detail: tuple[str, ...] = ()) -> Change:
    """Return a change of something that both runs have."""
    return Change(what, ChangeKind.CHANGED, where, was, now, detail)
