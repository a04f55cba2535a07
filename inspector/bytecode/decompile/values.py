"""What flows through a function when it is executed on symbols instead of objects."""

from typing import Any

from msgspec import Struct, field

from ctrace.inspector.model.bytecode import Code


class StopError(Exception):
    """The code does what this package does not know; the message is one plain sentence."""


class Const(Struct, frozen=True):
    """A constant; two are the same where class and text are."""

    type: str
    text: str


class Placeholder(Struct, frozen=True):
    """A constant that source cannot write, by the name that stands for it in the text."""

    name: str


class Arg(Struct, frozen=True):
    """What the caller passed for a parameter."""

    name: str


class Made(Struct, frozen=True):
    """What an event gave; `part` counts where it gives several, as unpacking does."""

    event: int
    part: int = 0


class Fresh(Struct, frozen=True):
    """A container that the function itself built; what it holds stands in the heap of a state until others see it."""

    number: int
    kind: str


class Cell(Struct, frozen=True):
    """The cell that holds a variable shared with another function."""

    name: str


class Not(Struct, frozen=True):
    """The other truth value of a truth value."""

    value: "Value"


class Is(Struct, frozen=True):
    """Whether two values are the same object; nothing can see that this is asked."""

    left: "Value"
    right: "Value"


class Spread(Struct, frozen=True):
    """The items of an iterable, between other items."""

    value: "Value"


class Pair(Struct, frozen=True):
    """One key of a dict with its value."""

    key: "Value"
    value: "Value"


class Null(Struct, frozen=True):
    """The empty slot that a call finds beside its callable, or the place of an instruction beside an exception."""


class Saved(Struct, frozen=True):
    """The exception that was being handled before another one."""

    handled: "Value | None"


Value = Const | Placeholder | Arg | Made | Fresh | Cell | Not | Is | Spread | Pair | Null | Saved

NULL = Null()
NONE = Const("NoneType", "None")
TRUE = Const("bool", "True")
FALSE = Const("bool", "False")


class Contents(Struct, frozen=True):
    """What a Fresh holds: its items, and for a function its code and which parts its items are."""

    items: tuple[Value, ...]
    code: Code | None = None
    parts: tuple[str, ...] = ()


Born = tuple[tuple[Fresh, Contents], ...]


class Event(Struct):
    """One step that others can see or that can fail; the steps of a path are in order."""

    number: int
    op: str
    detail: Any
    """Names and other plain text that the step takes."""
    operands: tuple[Value, ...]
    results: int
    handled: Value | None
    """The exception that is being handled meanwhile, as `sys.exc_info()` shows it."""
    born: Born
    """The containers that others see from here on, with what they hold."""
    offset: int
    regions: tuple[int, ...] = ()
    """The handlers that protect the step, outermost first, by offset."""
    failure: "Block | None" = None
    """What follows if the step raises; None where the exception leaves the function."""
    body: "Block | None" = None
    """For a loop, what one turn does."""


class Branch(Struct):
    """The two ways from a truth value."""

    test: Value
    yes: "Block"
    no: "Block"
    offset: int


class Leave(Struct):
    """The end of a path: `return`, `raise`, or `continue` for the next turn of a loop."""

    how: str
    value: Value
    handled: Value | None
    born: Born
    offset: int


Step = Event | Branch | Leave
Block = list[Step]


class Loop(Struct):
    """A loop that is being executed: where it starts and what the stack holds there."""

    head: int
    stack: list[Value]


class State(Struct):
    """All that a path knows at one instruction."""

    stack: list[Value] = field(default_factory=list)
    locals: dict[str, Value] = field(default_factory=dict)
    heap: dict[Fresh, Contents] = field(default_factory=dict)
    escaped: set[Fresh] = field(default_factory=set)
    facts: dict[Value, bool] = field(default_factory=dict)
    loops: list[Loop] = field(default_factory=list)
    carried: set[str] = field(default_factory=set)
    """Variables that turns of a loop assign: not known before a turn has."""
    frozen: int = 0
    """Containers with lower numbers were made before the loop."""
    handled: Value | None = None
    keywords: tuple[str, ...] = ()
    block: Block = field(default_factory=list)

    def copy(self) -> "State":
        """Return a state that goes its own way from here."""
        return State(
            list(self.stack),
            dict(self.locals),
            dict(self.heap),
            set(self.escaped),
            dict(self.facts),
            list(self.loops),
            set(self.carried),
            self.frozen,
            self.handled,
            self.keywords,
        )

    def pop(self) -> Value:
        """Take the top of the stack."""
        if not self.stack:
            msg = "The stack is empty where a value is taken from it."
            raise StopError(msg)
        return self.stack.pop()

    def take(self, count: int) -> list[Value]:
        """Take the `count` uppermost values, the deepest first."""
        taken = [self.pop() for _ in range(count)]
        return taken[::-1]


class Traced(Struct):
    """All paths of a code, and how its variables name what it makes."""

    code: Code
    block: Block
    hints: dict[Value, str]
    own_cells: frozenset[str]
    """The function's own variables that it shares with functions inside it."""
