"""What guards are: the checks that decide whether a compiled graph fits a call. Plain frozen records."""

from collections.abc import Iterator

from msgspec import Struct

from ctrace.inspector.model.findings import Frame


class Duration(Struct, frozen=True):
    """Microseconds, with the processor's caches emptied before, as torch measures it, and warm."""

    cold: float
    warm: float


class PartCost(Struct, frozen=True):
    """What one node of a guard tree costs with all below it; at depth 0 it hangs on the root."""

    source: str
    """Empty for several small ones that were measured together."""
    depth: int
    guards: int
    time: Duration


class KindCost(Struct, frozen=True):
    """What all leaf guards of a kind cost when warm, in microseconds, without finding their values."""

    kind: str
    number: int
    warm: float


class GuardCost(Struct, frozen=True):
    """What the guards of a compilation cost on one call."""

    whole: Duration
    plain: Duration
    """The whole without torch's short cut for modules that did not change; the parts add up to this."""
    root: Duration
    """The guards on torch's own state, at the root."""
    epilogue: float
    """Python expressions on symbolic sizes and on objects that are the same, which come last; warm, microseconds."""
    parts: tuple[PartCost, ...] = ()
    kinds: tuple[KindCost, ...] = ()


class Guard(Struct, frozen=True):
    """One check."""

    kind: str
    """Torch's word, such as `TENSOR_MATCH`."""
    code: str
    """The check as torch words it."""
    source: str
    """What it is about, as torch names it; empty: torch's own state."""
    place: Frame | None = None
    """The line of the user that made it (else of a library); None: torch made it for itself, or it is not known."""
    hint: str = ""


class Node(Struct, frozen=True):
    """A value that guards look at, and the values that are reached through it."""

    source: str
    type: str
    accessor: str = ""
    """How it is reached from the node above."""
    guards: tuple[Guard, ...] = ()
    nodes: tuple["Node", ...] = ()

    def all_guards(self) -> Iterator[Guard]:
        """Return its own guards and all below it."""
        yield from self.guards
        for node in self.nodes:
            yield from node.all_guards()


class GuardTree(Struct, frozen=True):
    """The guards of one compilation."""

    root: Node
    epilogue: tuple[Guard, ...] = ()
    """Checks that come last."""
    unread: int = 0
    """Lines of torch's text that could not be read."""
    is_misplaced: bool = False
    """Whether our record of places has another number of lines than torch's text; places are torch's comments then."""

    def all_guards(self) -> Iterator[Guard]:
        """Return every guard, in torch's order."""
        yield from self.root.all_guards()
        yield from self.epilogue


class LeftOut(Struct, frozen=True):
    """Guards of a kind that Dynamo asked for and that are not checked."""

    kind: str
    why: str
    """The setting, or `guard_filter_fn`."""
    number: int


class GuardText(Struct, frozen=True):
    """The guards of one compilation as the log has them; `guardtext.parse` makes a tree of it when it is asked for."""

    text: str
    stacks: tuple[tuple[Frame, ...] | None, ...] | None = None
    """Where the guard of each line was made; None: the log does not say, torch's comments have to do."""
    left_out: tuple[LeftOut, ...] = ()
    cost: GuardCost | None = None
    """None: not measured."""
