"""What a stretch of bytecode that torch put into a function is for."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ctrace.inspector.bytecode.rewrites.stackforms import Value


class PieceKind(StrEnum):
    """What a piece does. The last four are about instructions of the old code."""

    START = "start"
    """What every function begins with: its cells, RESUME."""
    TIMER = "timer"
    """Torch measures how long loading the inputs takes."""
    GRAPH = "graph"
    """Loads or calls the function of the graph; keeps what it returns."""
    INPUT = "input"
    """Loads an input of the graph."""
    OUTPUT = "output"
    """Takes an output of the graph, for the resume function."""
    CHANGE = "change"
    """Writes what the traced code changed: an attribute, an item, a list, a global."""
    OPERAND = "operand"
    """Puts on the stack what your own code, which stays, works on."""
    OWN = "own"
    """Your own code; it runs as it did."""
    COMPREHENSION = "comprehension"
    """Runs a comprehension of yours in a function that torch made of it."""
    CONTEXT = "context"
    """Enters a context again, or leaves it, around code that stays."""
    BRANCH = "branch"
    """A jump on a value that is known only when the code runs."""
    OBJECT = "object"
    """Makes an object that the traced code made."""
    VARIABLE = "variable"
    """Gives a variable its value for code that stays."""
    PASS = "pass"
    """A value for the resume function."""
    FRAME = "frame"
    """Torch's lists that a resume function gets its values in."""
    RESUME = "resume"
    """Calls the function that goes on after the break."""
    CLEANUP = "cleanup"
    """Deletes torch's own variables."""
    RETURN = "return"
    OTHER = "other"
    """Not understood."""
    TRACED = "traced"
    """Old code that Dynamo traced."""
    LATER = "later"
    """Old code that runs in the resume function."""
    PROLOGUE = "prologue"
    """The start that torch gave to a resume function."""
    DEAD = "dead"
    """Old code of a resume function that never runs there: what came before the break."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of instructions, and what it is for."""

    kind: PieceKind
    text: str
    first: int
    """Index of the first instruction: in the new code, or for the last four kinds in the old one."""
    last: int
    link: tuple[str, ...] = ()
    """Compilations that it leads to: the graph's, or those of the resume function."""


@dataclass(frozen=True, slots=True, eq=False)
class Role:
    """What one or more instructions are for; those of one role, in a row, are a piece."""

    kind: PieceKind
    text: str
    link: tuple[str, ...] = ()
    early: str = ""
    """For all its pieces but the last, where they only prepare it."""


class Claims:
    """Which instruction has which role; the first claim holds."""

    def __init__(self, own: Mapping[int, Role]) -> None:
        """Begin with the user's own instructions, which cannot be claimed."""
        self._own = own
        self.roles: dict[int, Role] = dict(own)

    def claim(self, index: int, role: Role) -> None:
        """Give an instruction a role, unless it has one."""
        if index >= 0:
            self.roles.setdefault(index, role)

    def tree(self, value: Value, role: Role) -> None:
        """Give a role to all that made a value, up to what has another."""
        ahead, seen = [value], set[int]()
        while ahead:
            each = ahead.pop()
            if id(each) in seen or self.roles.get(each.made, role) is not role:
                continue
            seen.add(id(each))
            self.claim(each.made, role)
            ahead += each.parts

    def is_free(self, index: int) -> bool:
        """Whether an instruction has no role yet."""
        return index not in self.roles

    def is_own(self, index: int) -> bool:
        """Whether an instruction is the user's."""
        return index in self._own

    def kind(self, index: int) -> PieceKind | None:
        """The kind of an instruction's role."""
        role = self.roles.get(index)
        return role.kind if role else None


def pieces(roles: Iterable[Role | None]) -> tuple[Piece, ...]:
    """Join instructions of one role in a row; those without one are left out."""
    found = list(_runs(roles))
    last = {id(role): at for at, (role, _, _) in enumerate(found)}
    return tuple(
        Piece(role.kind, role.early if role.early and last[id(role)] != at else role.text, first, end, role.link)
        for at, (role, first, end) in enumerate(found)
    )


def _runs(roles: Iterable[Role | None]) -> Iterator[tuple[Role, int, int]]:
    role: Role | None = None
    first = index = 0
    for index, each in enumerate(roles):
        if each is not role:
            if role is not None:
                yield role, first, index - 1
            first, role = index, each
    if role is not None:
        yield role, first, index
