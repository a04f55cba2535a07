"""Events about guards: torch's guard trees and recompile reasons, and our record of the guards that calls failed."""

from typing import ClassVar

from msgspec import Struct, field
from msgspec.structs import force_setattr

from ctrace.inspector.facts.findings import Frame
from ctrace.inspector.facts.guard_facts import LeftOut
from ctrace.inspector.facts.stored import Text
from ctrace.inspector.facts.wire import Integer, Number, OfCompilation


class RecompileExplained(Struct, frozen=True):
    """Torch's reasons for a recompilation, newest cache entry first."""

    id: str
    reasons: tuple[str, ...]


class UnmetGuard(Struct, frozen=True):
    """A guard that failed for a new call: torch's text for the guard, and the value in the call."""

    text: str = field(name="guard")
    now: str | None = None
    was: str | None = None
    """The value that the cache entry was compiled for, if `text` does not contain it."""
    stack: tuple[Frame, ...] = ()
    """Where the user's code created the guard."""
    hint: str = ""
    """Torch's advice for this guard."""


class EntryHeld(Struct, frozen=True):
    """A new call compared with one cache entry."""

    id: str
    unmet: tuple[UnmetGuard, ...]
    number: Integer = 0
    """The number of unmet guards, without those in `following`; `unmet` may list fewer."""
    following: tuple[str, ...] = ()
    """Texts of guards that failed only because another guard failed."""
    invalid: str | None = None
    """Why torch had invalidated the entry."""

    def __post_init__(self) -> None:
        """Count the unmet guards in the log of an older ctrace, which lists all of them."""
        if not self.number:
            force_setattr(self, "number", len(self.unmet))


class GuardsFailed(OfCompilation, frozen=True):
    """A new call compared with each cache entry, newest first."""

    KIND: ClassVar[str] = "recompile"
    entries: tuple[EntryHeld, ...]
    closure: tuple[str, ...] = ()
    """Names of the variables that the function uses from enclosing functions."""
    seconds: Number | None = None
    """How long the comparison took."""


class GuardsPrinted(Struct, frozen=True):
    """A compilation's guard tree as torch prints it."""

    id: str
    text: Text


class GuardStack(Struct, frozen=True):
    """A stack at which guards were created, outermost frame first."""

    frames: tuple[Frame, ...]


class GuardsPlaced(OfCompilation, frozen=True, kw_only=True):
    """Where guards were created: `lines` has for each line of torch's text the number of a stack, or -1 for none.

    Thousands of guards share few stacks, so the log has each stack once.
    """

    KIND: ClassVar[str] = "guards"
    stacks: tuple[GuardStack, ...]
    lines: tuple[Integer, ...]
    arguments: tuple[str, ...] = ()
    """The parameter names of the function that torch wrapped, in the order of the wrapper's `args`."""
    left_out: tuple[LeftOut, ...] = ()
    of_object: str | None = field(name="object", default=None)
    """The module whose method was compiled, as class and number."""
    receiver: str = "self"
    """What the method calls its module."""

    def __post_init__(self) -> None:
        """Refuse numbers of stacks that there are not."""
        if max(self.lines, default=-1) >= len(self.stacks):
            raise ValueError(f"a line has stack {max(self.lines)} of {len(self.stacks)}")

    @property
    def places(self) -> tuple[tuple[Frame, ...] | None, ...]:
        """Return for each line of torch's text its stack, or None."""
        return tuple(self.stacks[number].frames if number >= 0 else None for number in self.lines)


GuardEvent = RecompileExplained | GuardsPrinted
