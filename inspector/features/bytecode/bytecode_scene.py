"""The state that the rules for inserted bytecode share (`BytecodeScene`), and the roles that they claim for it."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum

from msgspec import Struct

from ctrace.inspector.facts.bytecode_facts import Rewritten
from ctrace.inspector.features.bytecode.resume_functions import called_resume
from ctrace.inspector.features.bytecode.stackforms import Value
from ctrace.inspector.features.bytecode.stackwalk import WalkStep, called_by


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
            # What another rule has claimed keeps its role, and so does what it was made of.
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
        if not role:
            return None
        return role.kind


def pieces(roles: Iterable[PieceRole | None]) -> tuple[BytecodePiece, ...]:
    """Merge consecutive instructions with one role; skip those without a role."""
    found = list(_runs(roles))
    # By identity: roles with equal texts may be of two different things.
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


STARTS = frozenset(("RESUME", "MAKE_CELL", "COPY_FREE_VARS"))
_PACKS = "packs the values for the resume function into torch's lists"
_UNUSED = "drops torch's lists for a resume function that is not needed"
START = PieceRole(PieceKind.START, "starts as before")


class BytecodeScene:
    """A compilation's new code, followed step by step, with the roles assigned so far."""

    def __init__(
        self,
        compile_id: str,
        codes: Mapping[str, Rewritten],
        steps: Mapping[int, WalkStep],
        own: Mapping[int, int | None],
        graphs: Collection[str],
    ) -> None:
        """Initialize; `own` maps the new indexes of user instructions to their lines."""
        self.id, self.codes, self.steps, self.own = compile_id, codes, steps, own
        self.graph = (compile_id,) if compile_id in graphs else ()
        """Links to the graph; empty if the run has none, such as when its compilation failed."""
        self.before, self.after = codes[compile_id].before, codes[compile_id].after
        self.claims = Claims(self._own_roles())
        self.torchs = frozenset(self.after.variables) - frozenset(self.before.variables)
        """Local variables that torch added."""
        resumes = any(called_resume(function.form) is not None for _, function, _ in self.free_calls())
        self.frame = PieceRole(PieceKind.FRAME, _PACKS if resumes else _UNUSED)
        """One role for all of torch's lists."""
        # Values have no equality: two loads of one variable are two values.
        self._takers = {id(value): step for step in steps.values() for value in step.taken}

    def _own_roles(self) -> dict[int, PieceRole]:
        """Return one role for all user instructions of a line."""
        lines = {line: PieceRole(PieceKind.OWN, f"{line_words(line)} runs unchanged") for line in self.own.values()}
        # These stand at the start of each function, old and new, and are nobody's line.
        starts = {at for at in self.own if self.after.instructions[at].opname in STARTS}
        return {at: START if at in starts else lines[line] for at, line in self.own.items()}

    def free(self) -> Iterator[WalkStep]:
        """Yield the steps without a role."""
        return (step for _, step in sorted(self.steps.items()) if self.claims.is_free(step.index))

    def free_calls(self) -> Iterator[tuple[WalkStep, Value, tuple[Value, ...]]]:
        """Yield the calls without a role, with function and arguments."""
        for step in self.free():
            if (call := called_by(step)) is not None:
                yield (step, *call)

    def whole(self, step: WalkStep, role: PieceRole) -> None:
        """Claim an instruction and the producers of its operands."""
        self.claims.claim(step.index, role)
        for value in step.taken:
            self.claims.tree(value, role)

    def taker(self, step: WalkStep) -> WalkStep | None:
        """Yield the consumers of an instruction's value."""
        if step.put:
            return self._takers.get(id(step.put[0]))
        return None

    def dropped(self, step: WalkStep) -> WalkStep | None:
        """Return the step that drops the result of a call."""
        taker = self.taker(step)
        if taker is not None and taker.instruction.opname == "POP_TOP":
            return taker
        return None

    def keeper(self, variable: str, before: int) -> WalkStep | None:
        """Return the last store to a variable before an instruction."""
        # Torch stores one variable several times, each for the next use.
        names = (at for at in range(before - 1, -1, -1) if self.after.instructions[at].text == variable)
        kept = (self.steps.get(at) for at in names if self.after.instructions[at].opname == "STORE_FAST")
        return next(kept, None)

    def loads(self, variable: str) -> list[int]:
        """Yield where a variable is read."""
        code = self.after.instructions
        return [at for at, each in enumerate(code) if each.opname == "LOAD_FAST" and each.text == variable]


def line_words(number: int | None) -> str:
    """Return the words for a user source line."""
    if number is None:
        return "your code"
    return f"line {number}"
