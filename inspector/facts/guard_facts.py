"""Guards: the checks that decide whether compiled code is valid for a call.

First as a Session has them; then the events of the log: torch's guard trees and recompile reasons, and ctrace's record
of the guards that calls failed.
"""

from collections.abc import Iterator
from typing import ClassVar, Literal

from msgspec import Struct, field
from msgspec.structs import force_setattr

from ctrace.inspector.facts.findings import Frame
from ctrace.inspector.facts.stored import HasText, Text
from ctrace.inspector.facts.wire import Integer, Number, OfCompilation


class Duration(Struct, frozen=True):
    """A time in microseconds: with cold CPU caches, as torch measures it, and with warm ones."""

    cold: Number
    warm: Number


class PartCost(Struct, frozen=True):
    """The cost of one node of a guard tree and all nodes below it; nodes at depth 0 are children of the root."""

    source: str
    """Empty if the part stands for several small nodes that were measured together."""
    depth: Integer
    guards: Integer
    cold: Number
    warm: Number

    @property
    def time(self) -> Duration:
        """Return both times."""
        return Duration(self.cold, self.warm)


class KindCost(Struct, frozen=True):
    """The warm cost of all leaf guards of one kind, in microseconds, without the time to look up their values."""

    kind: str
    number: Integer
    warm: Number


class GuardCost(OfCompilation, frozen=True, kw_only=True):
    """The cost of a compilation's guards per call."""

    KIND: ClassVar[str] = "guard_cost"
    cold: Number
    warm: Number
    plain: Duration
    """The cost without torch's shortcut for unchanged modules; the parts add up to this."""
    root: Duration
    """The guards on torch's own state, at the root."""
    parts: tuple[PartCost, ...]
    kinds: tuple[KindCost, ...]
    epilogue: Number
    """Warm cost, in microseconds, of the guards that torch checks last: on symbolic sizes and on identical objects."""
    UNIT: ClassVar[Literal["us"]] = "us"
    JSON: ClassVar[str] = "unit=UNIT whole plain root epilogue_warm=epilogue parts kinds"

    @property
    def whole(self) -> Duration:
        """Return the cost of all guards."""
        return Duration(self.cold, self.warm)


class Guard(Struct, frozen=True):
    """One check."""

    JSON: ClassVar[str] = "kind code source name=source|user_name file=place.file|relative line=place.line hint"
    kind: str
    """Torch's name for the kind, such as `TENSOR_MATCH`."""
    code: str
    """The check as torch prints it."""
    source: str
    """The value that it checks, as torch names it; empty for a guard on torch's own state."""
    place: Frame | None = None
    """The line that created it, in the user's code or else in a library; None: torch's own guard, or not known."""
    hint: str = ""


class GuardNode(Struct, frozen=True):
    """A value that guards check, with the values that torch gets from it as child nodes."""

    JSON: ClassVar[str] = "source type accessor guards=checks nodes"
    source: str
    type: str
    accessor: str = ""
    """How torch gets the value from the value of the parent node."""
    guards: tuple[Guard, ...] = ()
    nodes: tuple["GuardNode", ...] = ()

    @property
    def checks(self) -> tuple["NodeCheck", ...]:
        """The guards without their places, which the list of all guards has."""
        return tuple(NodeCheck(each.kind, each.code) for each in self.guards)

    def all_guards(self) -> Iterator[Guard]:
        """Return the guards of this node and of all nodes below it."""
        yield from self.guards
        for node in self.nodes:
            yield from node.all_guards()


class NodeCheck(Struct, frozen=True):
    """A guard in the tree; see `Guard`."""

    kind: str
    code: str


class GuardTree(Struct, frozen=True):
    """The guards of one compilation."""

    root: GuardNode
    epilogue: tuple[Guard, ...] = ()
    """The guards that torch checks last."""
    unread: int = 0
    """Lines of torch's text that could not be read."""
    is_misplaced: bool = False
    """Whether ctrace's record of places does not match torch's lines, so that places come from torch's comments."""

    def all_guards(self) -> Iterator[Guard]:
        """Return every guard, in torch's order."""
        yield from self.root.all_guards()
        yield from self.epilogue


class LeftOut(Struct, frozen=True):
    """Guards of one kind that Dynamo requested, but does not check."""

    kind: str
    why: str
    """What excludes them: a setting, or `guard_filter_fn`."""
    number: Integer


class GuardText(HasText, Struct, frozen=True):
    """The guards of one compilation as torch prints them; `findings/guard_tree.py` parses the text on demand."""

    body: Text
    """The guards; a large log keeps them until they are needed."""
    stacks: tuple[tuple[Frame, ...] | None, ...] | None = None
    """For each line, the stack at which its guard was created; None if the log has none: then torch's comments count.
    """
    left_out: tuple[LeftOut, ...] = ()
    cost: GuardCost | None = None
    """None: not measured."""


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
    # The log's name would hide the builtin.
    of_object: str | None = field(name="object", default=None)
    """The module whose method was compiled, as class and number."""
    receiver: str = "self"
    """What the method calls its module."""

    def __post_init__(self) -> None:
        """Refuse numbers of stacks that there are not."""
        # Only the largest may be wrong: any number below zero means no stack.
        if max(self.lines, default=-1) >= len(self.stacks):
            raise ValueError(f"a line has stack {max(self.lines)} of {len(self.stacks)}")

    @property
    def places(self) -> tuple[tuple[Frame, ...] | None, ...]:
        """Return for each line of torch's text its stack, or None."""
        return tuple(self.stacks[number].frames if number >= 0 else None for number in self.lines)


GuardEvent = RecompileExplained | GuardsPrinted
