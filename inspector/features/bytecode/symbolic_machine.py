"""Execute a code object symbolically along every path (`Machine`), and record the steps that are visible outside it.

Values are symbols: an argument, a constant, the result of a step, a container that the function makes. A state has the
stack, the local variables, the contents of new containers, and what is known of the tests on the way. A block is the
list of steps of one path.

- An opcode's function changes the state, and returns where execution goes on (`run`).
- A branch copies the state, and follows both ways, each with its own block; a test whose result is known on this path
  is not asked again (`branch`).
- A new container stays invisible until a step passes it on. Then it *escapes*: from there on, its contents are part of
  the step (`escape`).
- The body of a `for` is executed once, for any item. A variable that it assigns may not carry a value from one turn to
  the next, and a container from before the loop may not escape inside, because it would do so in one of many turns
  (`loop`): such code is refused.
- An exception goes to the handler that protects the instruction, or out of the function (`raised`).
- Paths can double with each branch, so the number of instructions on all of them is limited.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.facts.bytecode_facts import Code, Handler, Instruction


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


_BUDGET = 60_000
"""Maximum number of instructions to execute on all paths together, because each branch can double the paths."""
# Chosen: far from Python's own limit of 1,000 frames, of which a nested path takes several.
_NESTED = 60
_UNSUPPORTED = {0x20: "a generator", 0x80: "a coroutine", 0x100: "a coroutine", 0x200: "an asynchronous generator"}
_VARARGS, _VARKEYWORDS = 0x04, 0x08

Next = int | None
"""The offset where execution continues; None continues with the next instruction, and END ends the path."""
END = -1
Operation = Callable[["Machine", PathState, Instruction], Next]


Placeholders = frozenset[str] | None
"""Variables that replace constants in reconstructed code; None for original code, whose constants get these names."""


class Machine:
    """The symbolic execution of one code object."""

    def __init__(self, code: Code, operations: dict[str, Operation], placeholders: Placeholders = None) -> None:
        for flag, what in _UNSUPPORTED.items():
            if code.flags & flag:
                raise StopError(f"It is {what}.")
        self.code = code
        self.version = tuple(int(part) for part in code.python.split("."))
        self.placeholders = placeholders
        self.hints: dict[Value, str] = {}
        self.bools: set[int] = set()
        self.slots = _slots(code)
        self.shared = _shared(code, self.slots)
        self._operations = operations
        self._at = {each.offset: each for each in code.instructions}
        offsets = list(self._at)
        self._after = dict(zip(offsets, [*offsets[1:], END], strict=True))
        self._spent = self._numbers = self._depth = 0

    def traced(self) -> Traced:
        """Execute the code from its start."""
        arguments = self.code.variables[: _argument_count(self.code)]
        state = PathState(locals={name: Arg(name) for name in arguments})
        block = self.run(self.code.instructions[0].offset, state).block
        return Traced(self.code, block, self.hints, frozenset(self.shared - set(self.code.free)))

    def run(self, offset: int, state: PathState) -> PathState:
        """Execute from an offset to the ends of all paths, and add the steps to the state's block."""
        self._depth += 1
        while offset != END:
            here = self._instruction(offset)
            follows = self._operations[here.opname](self, state, here)
            if follows is None:
                offset = self._after[offset]
            else:
                offset = follows
            if follows is None and offset == END:
                raise StopError(f"The code ends at offset {here.offset} without leaving the function.")
        self._depth -= 1
        return state

    def _instruction(self, offset: int) -> Instruction:
        self._spent += 1
        if self._spent > _BUDGET or self._depth > _NESTED:
            raise StopError(f"The function has too many paths (at offset {offset}).")
        here = self._at.get(offset)
        if here is None:
            raise StopError(f"A jump leads to offset {offset}, where no instruction starts.")
        if here.opname not in self._operations:
            raise StopError(f"The instruction {here.opname} at offset {offset} is not supported yet.")
        return here

    def after(self, here: Instruction) -> int:
        """Return the offset of the next instruction."""
        return self._after[here.offset]

    def instruction_after(self, here: Instruction) -> Instruction | None:
        """Return the next instruction."""
        return self._at.get(self._after[here.offset])

    def number(self) -> int:
        """Return a new number; events and containers share one numbering."""
        self._numbers += 1
        return self._numbers

    def fresh(self, state: PathState, kind: str, contents: Contents) -> Fresh:
        """Create a container that has not escaped."""
        made = Fresh(self.number(), kind)
        state.heap[made] = contents
        return made

    def own(self, state: PathState, value: Value, kind: str) -> bool:
        """Return whether a value is a container of this kind that has not escaped."""
        if not isinstance(value, Fresh) or value.kind != kind or value in state.escaped:
            return False
        if value.number < state.frozen:
            raise StopError("A container created before a loop changes in the loop.")
        return True

    def event(
        self,
        state: PathState,
        here: Instruction,
        op: str,
        operands: tuple[Value, ...],
        detail: Any = None,
        results: int = 1,
    ) -> Event:
        """Add a step to the path; its operands escape."""
        born = self.escape(state, operands)
        made = Event(self.number(), op, detail, operands, results, state.handled, born, here.offset)
        made.failure = self._failure(state, here.offset)
        if made.failure is None:
            made.regions = ()
        else:
            made.regions = self._regions(here.offset)
        state.block.append(made)
        return made

    def value(
        self, state: PathState, here: Instruction, op: str, operands: tuple[Value, ...], detail: Any = None
    ) -> EventResult:
        """Add a step with one result, and return the result."""
        return EventResult(self.event(state, here, op, operands, detail).number)

    def truth(self, state: PathState, here: Instruction, value: Value) -> Value:
        """Add a truth test of a value, unless the value is a bool already."""
        if isinstance(value, Not | Is) or (isinstance(value, EventResult) and value.event in self.bools):
            return value
        tested = self.value(state, here, "test", (value,))
        self.bools.add(tested.event)
        return tested

    def leave(self, state: PathState, here: Instruction, how: str, value: Value) -> Next:
        """End the path."""
        born = self.escape(state, (value,))
        state.block.append(Leave(how, value, state.handled, born, here.offset))
        return END

    def branch(
        self, state: PathState, here: Instruction, test: Value, yes: PathState, no: PathState, ways: tuple[int, int]
    ) -> Next:
        """Follow both branches of a test, each with its own state; `ways` has the offsets of the branches."""
        if isinstance(test, Not):
            return self.branch(state, here, test.value, no, yes, (ways[1], ways[0]))
        # A test that this path has passed before has the same result.
        if test in state.facts:
            chosen, offset = (yes, ways[0]) if state.facts[test] else (no, ways[1])
            chosen.block = state.block
            self.run(offset, chosen)
            return END
        yes.facts[test], no.facts[test] = True, False
        made = TruthBranch(test, yes.block, no.block, here.offset)
        state.block.append(made)
        self.run(ways[0], yes)
        self.run(ways[1], no)
        return END

    def raised(self, state: PathState, here: Instruction, exception: Value) -> Next:
        """Pass an exception on to the handler that protects the instruction, or out of the function."""
        handler = self._handler(here.offset)
        if handler is None:
            return self.leave(state, here, "raise", exception)
        _unwind(state, handler, exception)
        return handler.target

    def escape(self, state: PathState, values: tuple[Value, ...]) -> Born:
        """Mark the containers among the values, and those inside them, as escaped; return them in source order."""
        born: list[tuple[Fresh, Contents]] = []
        # Taken from the end, so that the first operand comes first.
        waiting = list(values)[::-1]
        while waiting:
            value = waiting.pop()
            waiting.extend(_parts(value))
            if isinstance(value, Fresh) and value not in state.escaped:
                if value.number < state.frozen:
                    raise StopError("A container created before a loop is first used in the loop.")
                state.escaped.add(value)
                born.append((value, state.heap[value]))
                waiting.extend(state.heap[value].items[::-1])
        return tuple(born)

    def loop(self, state: PathState, here: Instruction, after: int) -> None:
        """Execute one iteration of a `for` whose iterator is on top of the stack, and record it as the step's body."""
        head, iterator = here.offset, state.stack[-1]
        state.carried |= self._variables_assigned_in_loop(head)
        made = self.event(state, here, "for", (iterator,))
        turn = state.copy()
        # Numbers grow, so what is made inside has a larger one.
        turn.frozen = made.number
        turn.loops.append(OpenLoop(head, list(state.stack)))
        turn.stack.append(EventResult(made.number))
        made.body = self.run(after, turn).block

    def _variables_assigned_in_loop(self, head: int) -> set[str]:
        ends = [each.offset for each in self.code.instructions if each.target == head and each.offset > head]
        if not ends:
            raise StopError(f"The loop at offset {head} has no jump back to its start.")
        inside = [each for each in self.code.instructions if head < each.offset <= max(ends)]
        changed = [each for each in inside if "FAST" in each.opname or each.opname in ("STORE_DEREF", "DELETE_DEREF")]
        changed = [each for each in changed if each.opname not in ("LOAD_FAST", "LOAD_FAST_LOAD_FAST")]
        return {name for each in changed for name in self.touched(each)}

    def touched(self, here: Instruction) -> list[str]:
        """Return the variables that an instruction on fast locals reads or writes."""
        if here.arg is None:
            return []
        if here.opname.count("FAST") == 2:  # such as LOAD_FAST_LOAD_FAST: two numbers in one argument
            return [self.slots[here.arg >> 4], self.slots[here.arg & 15]]
        return [self.slots[here.arg]]

    def _handler(self, offset: int) -> Handler | None:
        # CPython's table has no ranges that overlap: the innermost handler has its range alone.
        return next((each for each in self.code.handlers if each.start <= offset < each.end), None)

    def _failure(self, state: PathState, offset: int) -> list[Any] | None:
        handler = self._handler(offset)
        if handler is None:
            return None
        other = state.copy()
        exception = EventResult(self.number())
        _unwind(other, handler, exception)
        block = self.run(handler.target, other).block
        match block:
            # A handler that only reraises, such as one that cleans up for another, is as good as none.
            case [Leave(how="raise", value=value)] if value == exception:
                return None
        return block

    def _regions(self, offset: int) -> tuple[int, ...]:
        found: list[int] = []
        # A handler is protected by the next outer one.
        while (handler := self._handler(offset)) is not None and handler.target not in found:
            found.append(handler.target)
            offset = handler.target
        # Others clean up after a handler, and stand for no statement.
        return tuple(each for each in found[::-1] if self._at[each].opname == "PUSH_EXC_INFO")


def _unwind(state: PathState, handler: Handler, exception: Value) -> None:
    if len(state.stack) < handler.depth:
        raise StopError(f"The handler at offset {handler.target} needs more values than the stack has.")
    state.stack = state.stack[: handler.depth]
    if handler.lasti:  # the offset of the instruction that raised, which code only hands back to RERAISE
        state.stack.append(NULL)
    state.stack.append(exception)


def _parts(value: Value) -> tuple[Value, ...]:
    match value:
        case Not(inner) | UnpackedIterable(inner):
            return (inner,)
        case Is(left, right) | Pair(left, right):
            return (right, left)
        case SavedException():
            raise StopError("The exception being handled is used as a value.")
        case _:
            return ()


def _argument_count(code: Code) -> int:
    return code.arguments + code.keyword_only + bool(code.flags & _VARARGS) + bool(code.flags & _VARKEYWORDS)


def _slots(code: Code) -> list[str]:
    """Return the names of a frame's slots: variables, cells of other names, free variables."""
    return [*code.variables, *(name for name in code.cells if name not in code.variables), *code.free]


def _shared(code: Code, slots: list[str]) -> set[str]:
    """Return the variables that another function may share: free variables, and cells passed to closures."""
    names = set(code.free)
    for each in code.instructions:
        if each.arg is None or each.arg >= len(slots):
            continue
        # 3.13 has no LOAD_CLOSURE: LOAD_FAST of a cell variable loads the cell.
        passed_on = each.opname == "LOAD_CLOSURE" or (each.opname == "LOAD_FAST" and code.python >= "3.13")
        if passed_on and slots[each.arg] in code.cells:
            names.add(slots[each.arg])
    return names
