"""Track the stack through a function's code to find which instructions produced each operand.

The code is not executed: a value is described by how it was produced (`stackforms.py`). A path ends where the stack
cannot be tracked. The items of lists are tracked, too, because torch passes values to resume functions in lists.

The state before an instruction holds the stack and the lists; values that instructions pop and push move between the
two, and the layout of a call on the stack says which operand is which.
"""

from collections.abc import Callable, Iterator

from msgspec import Struct, field
from msgspec.structs import replace

from ctrace.inspector.facts.bytecode_facts import Code, Instruction
from ctrace.inspector.features.bytecode.opcodes import effect, goes_on, index_at, version
from ctrace.inspector.features.bytecode.stackforms import (
    Attribute,
    BuiltContainer,
    CallResult,
    ConstantForm,
    Form,
    FunctionForm,
    ItemForm,
    ListOf,
    Lists,
    NullForm,
    UnknownForm,
    Value,
    VariableForm,
)

_NULL_LAST = (3, 13)
"""From this Python version on, the NULL is above the called function on the stack."""
_DEEPEST = 100
"""Limits the nesting of values, since a log can be damaged."""


class StackState(Struct, frozen=True):
    """The stack, variables and lists before an instruction runs."""

    stack: tuple[Value, ...] = ()
    variables: dict[str, Value] = field(default_factory=dict)
    """The values that this code stored in local variables."""
    lists: Lists = field(default_factory=dict)
    keywords: tuple[str, ...] = ()


Done = tuple[tuple[Value, ...], StackState]
"""The values that an instruction pushes, and the state after it."""


class Move(Struct, frozen=True):
    """An instruction to track, with the values it pops."""

    code: Code
    index: int
    instruction: Instruction
    taken: tuple[Value, ...]
    number: int
    """The number of values that the instruction pushes."""
    state: StackState
    """The state before the instruction, without the values that it pops."""

    @property
    def name(self) -> str:
        """The name or constant in the instruction's argument, without `NULL +`."""
        text = self.instruction.text
        text = text.removeprefix("NULL + ").removeprefix("NULL|self + ")
        return text.removesuffix(" + NULL|self").removesuffix(" + NULL")

    def value(self, form: Form, *parts: Value) -> Value:
        """Return a value produced by this instruction; it is unknown if its nesting is too deep."""
        depth = 1 + max((part.depth for part in parts), default=0)
        if depth < _DEEPEST:
            return Value(self.index, form, parts, depth)
        return Value(self.index, UnknownForm())

    def putting(self, *values: Value) -> Done:
        """Push values, and keep the rest of the state."""
        return values, self.state

    def anything(self) -> Done:
        """Push unknown values, produced from the popped ones."""
        made = self.value(UnknownForm(self.instruction.opname), *self.taken)
        return (made,) * self.number, self.state

    def same(self) -> Done:
        """Push the popped values back, for instructions that do not change values."""
        return self.putting(*self.taken)

    def swap(self) -> Done:
        """Swap the top of the stack with a deeper value."""
        first, *between, last = self.taken
        return self.putting(last, *between, first)

    def copy(self) -> Done:
        """Push a copy of a value."""
        return self.putting(*self.taken, self.copied(self.taken[0]))

    def copied(self, value: Value, *more: Value) -> Value:
        """Return a copy of a value, produced by this instruction."""
        made = self.value(value.form, value, *more)
        if made.parts:
            return replace(made, first=value.root)
        return made

    def ask(self) -> Done:
        """Push the truth of a value, which is written like the value."""
        return self.putting(self.value(self.taken[0].form, *self.taken))

    def constant(self) -> Done:
        """Push a constant, with its code object if it is one."""
        at = self.instruction.arg
        code = None
        if at is not None and at < len(self.code.constants):
            code = self.code.constants[at].code
        return self.putting(self.value(ConstantForm(self.name, code)))

    def make_function(self) -> Done:
        """Push a function created from a known code object."""
        made = self.taken[-1].form
        code = None
        if isinstance(made, ConstantForm):
            code = made.code
        if code is None:
            return self.anything()
        return self.putting(self.value(FunctionForm(code), *self.taken))

    def set_function(self) -> Done:
        """Push a function back after it got a closure or defaults."""
        return self.putting(self.copied(self.taken[-1], *self.taken[:-1]))

    def null(self) -> Done:
        """Push a NULL."""
        return self.putting(self.value(NullForm()))

    def load_local(self) -> Done:
        """Push one or two local variables."""
        return self.putting(*map(self._variable, self.name.split(", ")))

    def _variable(self, name: str) -> Value:
        stored = self.state.variables.get(name)
        # The user's own arguments keep their names; a variable of torch stands for what was stored in it.
        if stored is None or name in self._own:
            return self.value(VariableForm("local", name))
        return self.value(stored.form)

    @property
    def _own(self) -> frozenset[str]:
        return frozenset(self.code.variables[: self.code.arguments + self.code.keyword_only])

    def store_local(self) -> Done:
        """Store values in one or two local variables."""
        return self._store(self.name.split(", "), self.taken[::-1])

    def store_and_load(self) -> Done:
        """Store a value in one variable and push another."""
        stored, loaded = self.name.split(", ")
        _, after = self._store([stored], self.taken)
        return replace(self, state=after).putting(replace(self, state=after)._variable(loaded))

    def _store(self, names: list[str], values: tuple[Value, ...]) -> Done:
        variables = {**self.state.variables, **dict(zip(names, values, strict=False))}
        return (), replace(self.state, variables=variables)

    def load_closure(self) -> Done:
        """Push a closure variable, or its cell."""
        return self.putting(self.value(VariableForm("closure", self.name)))

    def load_global(self) -> Done:
        """Push a global."""
        return self._with_null(self.value(VariableForm("global", self.name)))

    def load_attribute(self) -> Done:
        """Push an attribute or a method."""
        return self._with_null(self.value(Attribute(self.taken[0].form, self.name), *self.taken))

    def _with_null(self, value: Value) -> Done:
        if self.number == 1:  # no call follows
            return self.putting(value)
        null = self.value(NullForm())
        if version(self.code) >= _NULL_LAST:
            return self.putting(value, null)
        return self.putting(null, value)

    def build(self) -> Done:
        """Push a tuple, set, map or slice."""
        kind = self.instruction.opname.removeprefix("BUILD_").lower()
        return self.putting(self.value(BuiltContainer(kind, self.taken), *self.taken))

    def unpack(self) -> Done:
        """Push the items of a sequence, the first on top."""
        of = self.taken[0]
        items = [self.value(ItemForm(of.form, ConstantForm(str(at))), of) for at in range(self.number)]
        return self.putting(*reversed(items))

    def name_keywords(self) -> Done:
        """Store the keyword names for the next call."""
        return (), replace(self.state, keywords=words(self.name))

    def call(self) -> Done:
        """Push the result of a call."""
        keywords, taken = self.state.keywords, self.taken
        if self.instruction.opname == "CALL_KW":  # from 3.13 on, in place of KW_NAMES before the call
            keywords, taken = words(text_of(taken[-1])), taken[:-1]
        function, arguments = called(taken)
        if self.instruction.opname == "CALL_FUNCTION_EX":
            arguments, keywords = unpacked(arguments, self.index)
        made = self.value(CallResult(function.form, arguments, keywords), *self.taken)
        return (made,), replace(self.state, keywords=())


def build_list(move: Move) -> Done:
    """Push a list and track its items."""
    return _list(move, move.taken, move.taken)


def _list(move: Move, items: tuple[Value, ...], parts: tuple[Value, ...]) -> Done:
    # Lists change while they are on the stack, so a value has only the number of its list.
    number = len(move.state.lists)
    after = _changed(move, number, items)
    return (move.value(ListOf(number), *parts),), after


def _changed(move: Move, number: int, items: tuple[Value, ...]) -> StackState:
    return replace(move.state, lists={**move.state.lists, number: items})


def extend(move: Move) -> Done:
    """Append or extend a list deeper on the stack."""
    at = move.instruction.arg or 1
    if at <= len(move.state.stack):
        target = move.state.stack[-at].form
    else:
        target = UnknownForm()
    added = move.taken[0]
    lists = move.state.lists
    if isinstance(target, ListOf) and move.instruction.opname == "LIST_APPEND":
        return (), _changed(move, target.number, (*lists[target.number], added))
    if isinstance(target, ListOf) and isinstance(added.form, ListOf):
        return (), _changed(move, target.number, (*lists[target.number], *lists[added.form.number]))
    # Another iterable, or another target: the list stays as it was known, which only makes texts less exact.
    return (), move.state


def item(move: Move) -> Done:
    """Push an item; for a tracked list, the item's value."""
    of, key = move.taken
    return _item(move, of, key, move.taken)


def sliced(move: Move) -> Done:
    """Push a slice of a sequence."""
    of, low, high = move.taken
    key = move.value(BuiltContainer("slice", (low, high)), low, high)
    return _item(move, of, key, (of, key))


def _item(move: Move, of: Value, key: Value, parts: tuple[Value, ...]) -> Done:
    within = _within(move, of.form, key.form)
    if within is None or not isinstance(of.form, ListOf):
        return move.putting(move.value(ItemForm(of.form, key.form), *parts))
    items = move.state.lists[of.form.number][within]
    if isinstance(items, tuple):
        return _list(move, items, parts)
    return move.putting(move.copied(items, *parts))


def _within(move: Move, of: Form, key: Form) -> int | slice | None:
    """Return the index or slice within a tracked list, or None if the list or the key is unknown."""
    if not isinstance(of, ListOf):
        return None
    length = len(move.state.lists.get(of.number, ()))
    if isinstance(key, ConstantForm) and key.number is not None and -length <= key.number < length:
        return key.number
    ends = []
    if isinstance(key, BuiltContainer) and key.kind == "slice":
        ends = [end.form for end in key.items]
    if len(ends) == 2 and all(isinstance(end, ConstantForm) for end in ends):
        return slice(*(end.number for end in ends if isinstance(end, ConstantForm)))
    return None


def store_item(move: Move) -> Done:
    """Set an item or a slice of a list."""
    value, of, key = move.taken
    return _assign(move, value, of, key.form)


def store_slice(move: Move) -> Done:
    """Set a slice of a list."""
    value, of, low, high = move.taken
    return _assign(move, value, of, BuiltContainer("slice", (low, high)))


def _assign(move: Move, value: Value, of: Value, key: Form) -> Done:
    within = _within(move, of.form, key)
    if not isinstance(of.form, ListOf) or within is None:
        return (), move.state
    items = list(move.state.lists[of.form.number])
    if isinstance(within, int):
        items[within] = value
    elif isinstance(value.form, ListOf):
        items[within] = move.state.lists[value.form.number]
    return (), _changed(move, of.form.number, tuple(items))


def delete_item(move: Move) -> Done:
    """Delete an item of a list."""
    of, key = move.taken
    within = _within(move, of.form, key.form)
    if not isinstance(of.form, ListOf) or within is None:
        return (), move.state
    items = list(move.state.lists[of.form.number])
    del items[within]
    return (), _changed(move, of.form.number, tuple(items))


ACTS: dict[str, Callable[[Move], Done]] = {
    "SWAP": Move.swap,
    "COPY": Move.copy,
    "TO_BOOL": Move.ask,
    "LOAD_CONST": Move.constant,
    "MAKE_FUNCTION": Move.make_function,
    "SET_FUNCTION_ATTRIBUTE": Move.set_function,
    "PUSH_NULL": Move.null,
    "LOAD_FAST": Move.load_local,
    "LOAD_FAST_CHECK": Move.load_local,
    "LOAD_FAST_LOAD_FAST": Move.load_local,
    "STORE_FAST": Move.store_local,
    "STORE_FAST_STORE_FAST": Move.store_local,
    "STORE_FAST_LOAD_FAST": Move.store_and_load,
    "LOAD_CLOSURE": Move.load_closure,
    "LOAD_DEREF": Move.load_closure,
    "LOAD_GLOBAL": Move.load_global,
    "LOAD_ATTR": Move.load_attribute,
    "LOAD_METHOD": Move.load_attribute,
    "BUILD_TUPLE": Move.build,
    "BUILD_SET": Move.build,
    "BUILD_MAP": Move.build,
    "BUILD_SLICE": Move.build,
    "BUILD_LIST": build_list,
    "LIST_EXTEND": extend,
    "LIST_APPEND": extend,
    "BINARY_SUBSCR": item,
    "BINARY_SLICE": sliced,
    "STORE_SUBSCR": store_item,
    "STORE_SLICE": store_slice,
    "DELETE_SUBSCR": delete_item,
    "UNPACK_SEQUENCE": Move.unpack,
    "KW_NAMES": Move.name_keywords,
    "CALL": Move.call,
    "CALL_KW": Move.call,
    "CALL_FUNCTION_EX": Move.call,
}
"""How to track each opcode; other opcodes use `Move.anything`."""
_CALLS = frozenset(("CALL", "CALL_KW", "CALL_FUNCTION_EX"))


class WalkStep(Struct, frozen=True):
    """One instruction with the values that it pops and pushes, lowest on the stack first."""

    index: int
    instruction: Instruction
    taken: tuple[Value, ...]
    put: tuple[Value, ...]
    lists: Lists
    """The tracked lists after the instruction."""


def walked(code: Code) -> dict[int, WalkStep]:
    """Walk every path through the code, visiting each instruction once. Return the steps, keyed by index."""
    steps: dict[int, WalkStep] = {}
    ahead: list[tuple[int, StackState]] = [(0, StackState())]
    while ahead:
        index, state = ahead.pop()
        # Where paths meet, the first one that gets there decides: the values differ, their number does not.
        while index < len(code.instructions) and index not in steps:
            taken = _walk_one(code, index, state)
            if taken is None:
                break
            steps[index], after = taken
            ahead += _elsewhere(code, index, state, after)
            if not goes_on(code.instructions[index]):
                break
            index, state = index + 1, after
    return steps


def _elsewhere(code: Code, index: int, before: StackState, after: StackState) -> Iterator[tuple[int, StackState]]:
    """Yield where execution may continue other than at the next instruction: a jump target or an exception handler."""
    instruction = code.instructions[index]
    if instruction.target is not None:
        yield index_at(code, instruction.target), _jumping(code, instruction, before, after)
    for handler in code.handlers:
        if handler.start <= instruction.offset < handler.end:
            values = 1
            if handler.lasti:  # the offset of the instruction that raised is pushed, too
                values = 2
            raised = (Value(-1, UnknownForm("exception")),) * values
            yield (
                index_at(code, handler.target),
                replace(before, stack=(*before.stack[: handler.depth], *raised), keywords=()),
            )


def _jumping(code: Code, instruction: Instruction, before: StackState, after: StackState) -> StackState:
    there = effect(instruction, version(code), jumps=True)
    if there is None or there == effect(instruction, version(code)):
        return after
    taken, put = there
    kept = before.stack[: len(before.stack) - taken]
    top: tuple[Value, ...] = ()
    if taken == put:  # it only looks at the top, as JUMP_IF_TRUE_OR_POP does
        top = before.stack[-1:]
    fresh = (Value(-1, UnknownForm(instruction.opname)),) * (put - len(top))
    return replace(after, stack=(*kept, *top, *fresh))


def _walk_one(code: Code, index: int, state: StackState) -> tuple[WalkStep, StackState] | None:
    instruction = code.instructions[index]
    known = effect(instruction, version(code))
    if known is None or known[0] > len(state.stack):  # another Python's opcode, or a damaged log
        return None
    cut = len(state.stack) - known[0]
    kept, taken = state.stack[:cut], state.stack[cut:]
    move = Move(code, index, instruction, taken, known[1], replace(state, stack=kept))
    act = ACTS.get(instruction.opname, Move.anything)
    put, after = act(move)
    return WalkStep(index, instruction, taken, put, after.lists), replace(after, stack=(*after.stack, *put))


def called_by(step: WalkStep) -> tuple[Value, tuple[Value, ...]] | None:
    """Return the function and the arguments of a call, or None for any other instruction."""
    if step.instruction.opname in _CALLS and len(step.taken) > 1:
        return called(step.taken)
    return None


def called(taken: tuple[Value, ...]) -> tuple[Value, tuple[Value, ...]]:
    """Split a call's operands into function and arguments; a NULL is below or above the function."""
    if isinstance(taken[0].form, NullForm):
        return taken[1], taken[2:]
    # From 3.13 on; before, the NULL is below.
    if isinstance(taken[1].form, NullForm):
        return taken[0], taken[2:]
    # A method with its `self`, which is the first argument.
    return taken[0], taken[1:]


def words(text: str) -> tuple[str, ...]:
    """Parse the repr of a tuple of names."""
    parts = (part.strip(" '\"") for part in text.strip("()").split(","))
    return tuple(part for part in parts if part)


def text_of(value: Value) -> str:
    """Return the repr of a constant, or "" for any other value."""
    if isinstance(value.form, ConstantForm):
        return value.form.text
    return ""


def unpacked(arguments: tuple[Value, ...], index: int) -> tuple[tuple[Value, ...], tuple[str, ...]]:
    """Return the arguments of `f(*a, **b)` and the keyword names.

    `a` and `b` are unpacked if this code built them; otherwise, each stays one `spread` value, produced by the call at
    `index`.
    """
    positional, *maps = arguments
    first = _items(positional.form, "tuple")
    if first is None:
        first = (Value(index, BuiltContainer("spread", (positional,)), (positional,)),)
    if not maps:
        return first, ()
    pairs = _items(maps[0].form, "map")
    if pairs is None or not all(isinstance(key.form, ConstantForm) for key in pairs[::2]):
        return (*first, Value(index, BuiltContainer("spread_map", (maps[0],)), (maps[0],))), ()
    return (*first, *pairs[1::2]), tuple(text_of(key).strip("'\"") for key in pairs[::2])


def _items(form: Form, kind: str) -> tuple[Value, ...] | None:
    if isinstance(form, BuiltContainer) and form.kind == kind:
        return form.items
    return None
