"""Events about guards: torch's guard trees and recompile reasons, and our record of the guards that calls failed."""

from msgspec import Struct

from ctrace.inspector.files.stored import Text
from ctrace.inspector.model.findings import Frame
from ctrace.inspector.model.guards import GuardCost, LeftOut


class RecompileExplained(Struct, frozen=True):
    """Torch's reasons for a recompilation, newest cache entry first."""

    id: str
    reasons: tuple[str, ...]


class UnmetGuard(Struct, frozen=True):
    """A guard that failed for a new call: torch's text for the guard, and the value in the call."""

    text: str
    now: str | None = None
    stack: tuple[Frame, ...] = ()
    """Where the user's code created the guard."""
    hint: str = ""
    """Torch's advice for this guard."""
    was: str | None = None
    """The value that the cache entry was compiled for, if `text` does not contain it."""


class EntryHeld(Struct, frozen=True):
    """A new call compared with one cache entry."""

    id: str
    unmet: tuple[UnmetGuard, ...] = ()
    number: int = 0
    """The number of unmet guards, without those in `following`; `unmet` may list fewer."""
    invalid: str | None = None
    """Why torch had invalidated the entry."""
    following: tuple[str, ...] = ()
    """Texts of guards that failed only because another guard failed."""


class GuardsFailed(Struct, frozen=True):
    """A new call compared with each cache entry, newest first."""

    id: str
    entries: tuple[EntryHeld, ...]
    closure: frozenset[str] = frozenset()
    """Names of the variables that the function uses from enclosing functions."""
    seconds: float | None = None
    """How long the comparison took."""


class GuardsPrinted(Struct, frozen=True):
    """A compilation's guard tree as torch prints it."""

    id: str
    text: Text


class GuardsPlaced(Struct, frozen=True):
    """Where guards were created: for each line of torch's text, a stack (outermost frame first) or None."""

    id: str
    stacks: tuple[tuple[Frame, ...] | None, ...]
    left_out: tuple[LeftOut, ...] = ()
    of_object: str | None = None
    """The module whose method was compiled, as class and number."""
    arguments: tuple[str, ...] = ()
    """The parameter names of the function that torch wrapped, in the order of the wrapper's `args`."""


class GuardsTimed(Struct, frozen=True):
    """The cost of a compilation's guards."""

    id: str
    cost: GuardCost


GuardEvent = RecompileExplained | GuardsFailed | GuardsPrinted | GuardsPlaced | GuardsTimed
