"""The roles of bytecode that torch inserted into a function."""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

from msgspec import Struct

from ctrace.inspector.features.bytecode.rewrites.stackforms import Value


class PieceKind(StrEnum):
    """The role of a piece. The last four apply to instructions of the old code."""

    START = "start"
    """The start of every function, such as its cells and RESUME."""
    TIMER = "timer"
    """Torch times the loading of inputs."""
    GRAPH = "graph"
    """Loads or calls the compiled graph, or stores its result."""
    INPUT = "input"
    """Loads an input of the graph."""
    OUTPUT = "output"
    """Takes an output of the graph for the resume function."""
    CHANGE = "change"
    """Writes what the traced code changed: an attribute, an item, a list, a global."""
    OPERAND = "operand"
    """Loads the operands of your remaining code."""
    OWN = "own"
    """Your code, which runs unchanged."""
    COMPREHENSION = "comprehension"
    """Runs a comprehension of your code in a function that torch created for it."""
    CONTEXT = "context"
    """Reenters or exits a context around remaining code."""
    BRANCH = "branch"
    """A branch on a value that is known only at run time."""
    OBJECT = "object"
    """Creates an object that the traced code created."""
    VARIABLE = "variable"
    """Sets a variable for remaining code."""
    PASS = "pass"
    """Loads a value for the resume function."""
    FRAME = "frame"
    """Handles torch's lists that pass values to a resume function."""
    RESUME = "resume"
    """Calls the resume function after the break."""
    CLEANUP = "cleanup"
    """Deletes torch's variables."""
    RETURN = "return"
    OTHER = "other"
    """Inserted code that no rule recognizes."""
    TRACED = "traced"
    """Old code that Dynamo traced."""
    LATER = "later"
    """Old code that runs in the resume function."""
    PROLOGUE = "prologue"
    """Torch's prologue of a resume function."""
    DEAD = "dead"
    """Old code before the break, which never runs in a resume function."""


class BytecodePiece(Struct, frozen=True):
    """Consecutive instructions with one role."""

    kind: PieceKind
    text: str
    first: int
    """Index of the first instruction: in the old code for the last four kinds, in the new code for the others."""
    last: int
    link: tuple[str, ...] = ()
    """The compilations that the piece refers to: the graph's, or the resume function's."""


class PieceRole(Struct, frozen=True, eq=False):
    """The role of instructions; consecutive instructions with one role form a piece."""

    kind: PieceKind
    text: str
    link: tuple[str, ...] = ()
    early: str = ""
    """The text of all pieces before the last one, if they only prepare it."""


class Claims:
    """The roles of instructions; the first claim wins."""

    def __init__(self, own: Mapping[int, PieceRole]) -> None:
        """Start with the user's instructions, which cannot be claimed."""
        self._own = own
        self.roles: dict[int, PieceRole] = dict(own)

    def claim(self, index: int, role: PieceRole) -> None:
        """Assign a role to an instruction, unless it has one."""
        if index >= 0:
            self.roles.setdefault(index, role)

    def tree(self, value: Value, role: PieceRole) -> None:
        """Assign a role to all producers of a value; stop at producers with another role."""
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


def pieces(roles: Iterable[PieceRole | None]) -> tuple[BytecodePiece, ...]:
    """Merge consecutive instructions with one role; skip those without a role."""
    found = list(_runs(roles))
    last = {id(role): at for at, (role, _, _) in enumerate(found)}
    return tuple(
        BytecodePiece(
            role.kind, role.early if role.early and last[id(role)] != at else role.text, first, end, role.link
        )
        for at, (role, first, end) in enumerate(found)
    )


def _runs(roles: Iterable[PieceRole | None]) -> Iterator[tuple[PieceRole, int, int]]:
    role: PieceRole | None = None
    first = index = 0
    for index, each in enumerate(roles):
        if each is not role:
            if role is not None:
                yield role, first, index - 1
            first, role = index, each
    if role is not None:
        yield role, first, index
