"""What a trace line can say of guards: torch's tree and reasons, and ours on why calls did not fit."""

from msgspec import Struct

from ctrace.inspector.model.findings import Frame
from ctrace.inspector.model.guards import GuardCost, LeftOut


class RecompileExplained(Struct, frozen=True):
    """Torch's reasons for a recompile, newest cache entry first."""

    id: str
    reasons: tuple[str, ...]


class UnmetGuard(Struct, frozen=True):
    """A guard that a new call did not meet: torch's text, and the value that the call has."""

    text: str
    now: str | None = None
    stack: tuple[Frame, ...] = ()
    """Where the user's code made the guard."""
    hint: str = ""
    """What torch advises along with it."""
    was: str | None = None
    """The value that the entry was made for, where the text does not say it."""


class EntryHeld(Struct, frozen=True):
    """A new call held against one cache entry."""

    id: str
    unmet: tuple[UnmetGuard, ...] = ()
    number: int = 0
    """Of all unmet guards that stand for themselves; `unmet` may hold fewer."""
    invalid: str | None = None
    """Why torch had thrown the entry away."""
    following: tuple[str, ...] = ()
    """Texts of unmet guards that only follow from others."""


class GuardsFailed(Struct, frozen=True):
    """A new call held against each cache entry, newest first."""

    id: str
    entries: tuple[EntryHeld, ...]
    closure: frozenset[str] = frozenset()
    """Names that the function takes from an enclosing one."""
    seconds: float | None = None
    """What finding this out took."""


class GuardsPrinted(Struct, frozen=True):
    """A compilation's guard tree as torch prints it."""

    id: str
    text: str


class GuardsPlaced(Struct, frozen=True):
    """Where a compilation's guards come from: for each of torch's lines a stack, outermost frame first, or None."""

    id: str
    stacks: tuple[tuple[Frame, ...] | None, ...]
    left_out: tuple[LeftOut, ...] = ()
    of_object: str | None = None
    """The module whose method was compiled, as class and number."""
    arguments: tuple[str, ...] = ()
    """What `args` holds is called so in the function that torch wrapped, in order."""


class GuardsTimed(Struct, frozen=True):
    """What a compilation's guards cost."""

    id: str
    cost: GuardCost


GuardEvent = RecompileExplained | GuardsFailed | GuardsPrinted | GuardsPlaced | GuardsTimed
