"""The symbolic values, steps and states of a function's symbolic execution."""

from typing import Any

from msgspec import Struct, field

from ctrace.inspector.facts.bytecode_facts import Code


class StopError(Exception):
    """The code object does something unsupported; the message is one sentence."""


class Const(Struct, frozen=True):
    """A constant; two constants are equal if their types and texts are."""

    type: str
    text: str


class Placeholder(Struct, frozen=True):
    """A constant that cannot be written as source; a name stands for it."""

    name: str


class Arg(Struct, frozen=True):
    """The argument that the caller passed for a parameter."""

    name: str


class EventResult(Struct, frozen=True):
    """The result of an event; `part` is the index among several results, such as those of unpacking."""

    event: int
    part: int = 0


class Fresh(Struct, frozen=True):
    """A container that the function built; its contents are in the state's heap until it escapes."""

    number: int
    kind: str


class Cell(Struct, frozen=True):
    """The cell that holds a variable shared with another function."""

    name: str


class Not(Struct, frozen=True):
    """The negation of a truth value."""

    value: "Value"


class Is(Struct, frozen=True):
    """Whether two values are the same object; the comparison has no side effects."""

    left: "Value"
    right: "Value"


class UnpackedIterable(Struct, frozen=True):
    """An iterable unpacked between other items, as in `[a, *b]`."""

    value: "Value"


class Pair(Struct, frozen=True):
    """One key of a dict with its value."""

    key: "Value"
    value: "Value"


class NullValue(Struct, frozen=True):
    """The NULL beside a called function, or the instruction offset below an exception (`lasti`)."""


class SavedException(Struct, frozen=True):
    """The exception that was being handled before the current one."""

    handled: "Value | None"


Value = (
    Const
    | Placeholder
    | Arg
    | EventResult
    | Fresh
    | Cell
    | Not
    | Is
    | UnpackedIterable
    | Pair
    | NullValue
    | SavedException
)

NULL = NullValue()
NONE = Const("NoneType", "None")
TRUE = Const("bool", "True")
FALSE = Const("bool", "False")


class Contents(Struct, frozen=True):
    """The contents of a Fresh; a function's `parts` name its items, such as `defaults`."""

    items: tuple[Value, ...]
    code: Code | None = None
    parts: tuple[str, ...] = ()


Born = tuple[tuple[Fresh, Contents], ...]


class Event(Struct):
    """One step that can raise or that is visible outside the function."""

    number: int
    op: str
    detail: Any
    """What the step needs besides its operands, such as an attribute's name."""
    operands: tuple[Value, ...]
    results: int
    handled: Value | None
    """The exception that `sys.exc_info()` shows during the step."""
    born: Born
    """The containers that escape in this step, with their contents."""
    offset: int
    regions: tuple[int, ...] = ()
    """The offsets of the handlers that protect the step, outermost first."""
    failure: "Block | None" = None
    """The steps that follow if this one raises; None if the exception leaves the function."""
    body: "Block | None" = None
    """For a loop, the steps of one iteration."""


class TruthBranch(Struct):
    """A branch on a truth value."""

    test: Value
    yes: "Block"
    no: "Block"
    offset: int


class Leave(Struct):
    """The end of a path: `return`, `raise`, or `continue` for a loop's next iteration."""

    how: str
    value: Value
    handled: Value | None
    born: Born
    offset: int


Step = Event | TruthBranch | Leave
Block = list[Step]


class OpenLoop(Struct):
    """A loop that is being executed, with the offset of its start and the stack there."""

    head: int
    stack: list[Value]


class PathState(Struct):
    """The state of a path before one instruction."""

    stack: list[Value] = field(default_factory=list)
    locals: dict[str, Value] = field(default_factory=dict)
    heap: dict[Fresh, Contents] = field(default_factory=dict)
    escaped: set[Fresh] = field(default_factory=set)
    facts: dict[Value, bool] = field(default_factory=dict)
    loops: list[OpenLoop] = field(default_factory=list)
    carried: set[str] = field(default_factory=set)
    """Variables that the loop assigns, and that this iteration has not assigned yet."""
    frozen: int = 0
    """Containers with lower numbers were created before the loop."""
    handled: Value | None = None
    keywords: tuple[str, ...] = ()
    block: Block = field(default_factory=list)

    def copy(self) -> "PathState":
        """Return an independent copy with an empty block."""
        return PathState(
            stack=list(self.stack),
            locals=dict(self.locals),
            heap=dict(self.heap),
            escaped=set(self.escaped),
            facts=dict(self.facts),
            loops=list(self.loops),
            carried=set(self.carried),
            frozen=self.frozen,
            handled=self.handled,
            keywords=self.keywords,
        )

    def pop(self) -> Value:
        """Pop the top of the stack."""
        if not self.stack:
            msg = "The stack is empty where an instruction pops a value."
            raise StopError(msg)
        return self.stack.pop()

    def take(self, count: int) -> list[Value]:
        """Pop the top `count` values and return them, deepest first."""
        taken = [self.pop() for _ in range(count)]
        return taken[::-1]


class Traced(Struct):
    """All paths of a code object, and the variable names of its values."""

    code: Code
    block: Block
    hints: dict[Value, str]
    own_cells: frozenset[str]
    """The function's variables that nested functions share."""
