"""Follow the stack through a function's code: which instruction made what each instruction takes.

Nothing is run: a value is known by how it was made (`stackforms.py`). Where the stack cannot be followed, the walk ends.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from ctrace.inspector.alignment import argument
from ctrace.inspector.bytecode import Code, Instruction
from ctrace.inspector.opcodes import effect, goes_on, index_at, version
from ctrace.inspector.stackforms import (
    Attribute,
    Built,
    Call,
    Constant,
    Function,
    Form,
    Item,
    ListOf,
    Lists,
    Name,
    Null,
    Unknown,
    Value,
)

_NULL_LAST = (3, 13)
"""From this Python on, the NULL beside a called function lies above it."""


_CALLS = frozenset(("CALL", "CALL_KW", "CALL_FUNCTION_EX"))


@dataclass(frozen=True, slots=True)
class State:
    """What is known before an instruction runs."""

    stack: tuple[Value, ...] = ()
    variables: dict[str, Value] = field(default_factory=dict)
    """What this code put into local variables."""
    lists: Lists = field(default_factory=dict)
    keywords: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction, what it takes and what it puts, lowest on the stack first."""

    index: int
    instruction: Instruction
    taken: tuple[Value, ...]
    put: tuple[Value, ...]
    lists: Lists
    """As they are after it."""


def walked(code: Code) -> dict[int, Step]:
    """Follow each way through the code, and give the steps by index; each instruction is visited once."""
    steps: dict[int, Step] = {}
    ahead: list[tuple[int, State]] = [(0, State())]
    while ahead:
        index, state = ahead.pop()
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


def _elsewhere(code: Code, index: int, before: State, after: State) -> Iterator[tuple[int, State]]:
    """Give where else an instruction may lead: its target, and what catches an exception of it."""
    instruction = code.instructions[index]
    if instruction.target is not None:
        yield index_at(code, instruction.target), _jumping(code, instruction, before, after)
    for handler in code.handlers:
        if handler.start <= instruction.offset < handler.end:
            raised = (Value(-1, Unknown("exception")),) * (2 if handler.lasti else 1)
            yield (
                index_at(code, handler.target),
                replace(before, stack=(*before.stack[: handler.depth], *raised), keywords=()),
            )


def _jumping(code: Code, instruction: Instruction, before: State, after: State) -> State:
    there = effect(instruction, version(code), jumps=True)
    if there is None or there == effect(instruction, version(code)):
        return after
    taken, put = there
    kept = before.stack[: len(before.stack) - taken]
    again = before.stack[-1:] if taken == put else ()
    fresh = (Value(-1, Unknown(instruction.opname)),) * (put - len(again))
    return replace(after, stack=(*kept, *again, *fresh))


def _walk_one(code: Code, index: int, state: State) -> tuple[Step, State] | None:
    instruction = code.instructions[index]
    known = effect(instruction, version(code))
    if known is None or known[0] > len(state.stack):
        return None
    cut = len(state.stack) - known[0]
    kept, taken = state.stack[:cut], state.stack[cut:]
    move = _Move(code, index, instruction, taken, known[1], replace(state, stack=kept))
    act = _ACTS.get(instruction.opname, _Move.anything)
    put, after = act(move)
    return Step(index, instruction, taken, put, after.lists), replace(after, stack=(*after.stack, *put))


_Done = tuple[tuple[Value, ...], State]


@dataclass(frozen=True, slots=True)
class _Move:
    """An instruction about to be followed."""

    code: Code
    index: int
    instruction: Instruction
    taken: tuple[Value, ...]
    number: int
    """How many values it puts."""
    state: State
    """Without what it takes."""

    @property
    def name(self) -> str:
        """The name or constant that it is about, without the mark of a NULL."""
        text = argument(self.code, self.instruction)
        for mark in ("NULL + ", "NULL|self + "):
            text = text.removeprefix(mark)
        return text.removesuffix(" + NULL|self").removesuffix(" + NULL")

    def value(self, form: Form, *parts: Value) -> Value:
        return Value(self.index, form, parts)

    def putting(self, *values: Value) -> _Done:
        return values, self.state

    def anything(self) -> _Done:
        """Put values of which nothing is known but what they were made of."""
        made = self.value(Unknown(self.instruction.opname), *self.taken)
        return (made,) * self.number, self.state

    def same(self) -> _Done:
        """Put back what was taken; an instruction without effect on values."""
        return self.putting(*self.taken)

    def swap(self) -> _Done:
        first, *between, last = self.taken
        return self.putting(last, *between, first)

    def copy(self) -> _Done:
        return self.putting(*self.taken, self._again(self.taken[0]))

    def _again(self, value: Value, *more: Value) -> Value:
        return Value(self.index, value.form, (value, *more), value.root)

    def constant(self) -> _Done:
        at = self.instruction.arg
        code = self.code.constants[at].code if at is not None and at < len(self.code.constants) else None
        return self.putting(self.value(Constant(self.name, code)))

    def make_function(self) -> _Done:
        made = self.taken[-1].form
        code = made.code if isinstance(made, Constant) else None
        return self.anything() if code is None else self.putting(self.value(Function(code), *self.taken))

    def set_function(self) -> _Done:
        return self.putting(self._again(self.taken[-1], *self.taken[:-1]))

    def null(self) -> _Done:
        return self.putting(self.value(Null()))

    def load_local(self) -> _Done:
        return self.putting(*map(self._variable, self.name.split(", ")))

    def _variable(self, name: str) -> Value:
        stored = self.state.variables.get(name)
        if stored is None or name in self._own:
            return self.value(Name("local", name))
        return Value(self.index, stored.form, (), stored.root)

    @property
    def _own(self) -> frozenset[str]:
        return frozenset(self.code.variables[: self.code.arguments + self.code.keyword_only])

    def store_local(self) -> _Done:
        return self._stored(self.name.split(", "), self.taken[::-1])

    def store_and_load(self) -> _Done:
        stored, loaded = self.name.split(", ")
        _, after = self._stored([stored], self.taken)
        return replace(self, state=after).putting(replace(self, state=after)._variable(loaded))

    def _stored(self, names: list[str], values: tuple[Value, ...]) -> _Done:
        variables = {**self.state.variables, **dict(zip(names, values, strict=False))}
        return (), replace(self.state, variables=variables)

    def load_closure(self) -> _Done:
        return self.putting(self.value(Name("closure", self.name)))

    def load_global(self) -> _Done:
        return self._with_null(self.value(Name("global", self.name)))

    def load_attribute(self) -> _Done:
        return self._with_null(self.value(Attribute(self.taken[0].form, self.name), *self.taken))

    def _with_null(self, value: Value) -> _Done:
        if self.number == 1:
            return self.putting(value)
        null = self.value(Null())
        return self.putting(value, null) if version(self.code) >= _NULL_LAST else self.putting(null, value)

    def build(self) -> _Done:
        kind = self.instruction.opname.removeprefix("BUILD_").lower()
        return self.putting(self.value(Built(kind, self.taken), *self.taken))

    def build_list(self) -> _Done:
        return self._list(self.taken, self.taken)

    def _list(self, items: tuple[Value, ...], parts: tuple[Value, ...]) -> _Done:
        number = len(self.state.lists)
        after = self._changed(number, items)
        return (self.value(ListOf(number), *parts),), after

    def _changed(self, number: int, items: tuple[Value, ...]) -> State:
        return replace(self.state, lists={**self.state.lists, number: items})

    def extend(self) -> _Done:
        at = self.instruction.arg or 1
        target = self.state.stack[-at].form if at <= len(self.state.stack) else Unknown()
        added = self.taken[0]
        lists = self.state.lists
        if isinstance(target, ListOf) and self.instruction.opname == "LIST_APPEND":
            return (), self._changed(target.number, (*lists[target.number], added))
        if isinstance(target, ListOf) and isinstance(added.form, ListOf):
            return (), self._changed(target.number, (*lists[target.number], *lists[added.form.number]))
        return (), self.state

    def item(self) -> _Done:
        of, key = self.taken
        return self._item(of, key, self.taken)

    def sliced(self) -> _Done:
        of, low, high = self.taken
        key = self.value(Built("slice", (low, high)), low, high)
        return self._item(of, key, (of, key))

    def _item(self, of: Value, key: Value, parts: tuple[Value, ...]) -> _Done:
        within = self._within(of.form, key.form)
        if within is None or not isinstance(of.form, ListOf):
            return self.putting(self.value(Item(of.form, key.form), *parts))
        items = self.state.lists[of.form.number][within]
        if isinstance(items, tuple):
            return self._list(items, parts)
        return self.putting(self._again(items, *parts))

    def _within(self, of: Form, key: Form) -> int | slice | None:
        """Give the position in a list that is known; None for any other."""
        if not isinstance(of, ListOf):
            return None
        length = len(self.state.lists.get(of.number, ()))
        if isinstance(key, Constant) and key.number is not None and -length <= key.number < length:
            return key.number
        ends = [item.form for item in key.items] if isinstance(key, Built) and key.kind == "slice" else []
        if len(ends) == 2 and all(isinstance(end, Constant) for end in ends):
            return slice(*(end.number for end in ends if isinstance(end, Constant)))
        return None

    def store_item(self) -> _Done:
        value, of, key = self.taken
        return self._assigned(value, of, key.form)

    def store_slice(self) -> _Done:
        value, of, low, high = self.taken
        return self._assigned(value, of, Built("slice", (low, high)))

    def _assigned(self, value: Value, of: Value, key: Form) -> _Done:
        within = self._within(of.form, key)
        if not isinstance(of.form, ListOf) or within is None:
            return (), self.state
        items = list(self.state.lists[of.form.number])
        if isinstance(within, int):
            items[within] = value
        elif isinstance(value.form, ListOf):
            items[within] = self.state.lists[value.form.number]
        return (), self._changed(of.form.number, tuple(items))

    def delete_item(self) -> _Done:
        of, key = self.taken
        within = self._within(of.form, key.form)
        if not isinstance(of.form, ListOf) or within is None:
            return (), self.state
        items = list(self.state.lists[of.form.number])
        del items[within]
        return (), self._changed(of.form.number, tuple(items))

    def unpack(self) -> _Done:
        of = self.taken[0]
        items = [self.value(Item(of.form, Constant(str(at))), of) for at in range(self.number)]
        return self.putting(*reversed(items))

    def name_keywords(self) -> _Done:
        return (), replace(self.state, keywords=_words(self.name))

    def call(self) -> _Done:
        keywords, taken = self.state.keywords, self.taken
        if self.instruction.opname == "CALL_KW":
            keywords, taken = _words(_text(taken[-1])), taken[:-1]
        function, arguments = called(taken)
        made = self.value(Call(function.form, arguments, keywords), *self.taken)
        return (made,), replace(self.state, keywords=())


def called(taken: tuple[Value, ...]) -> tuple[Value, tuple[Value, ...]]:
    """Tell the function from the arguments; a NULL lies below or above the function."""
    if isinstance(taken[0].form, Null):
        return taken[1], taken[2:]
    return taken[0], taken[2:] if isinstance(taken[1].form, Null) else taken[1:]


def called_by(step: Step) -> tuple[Value, tuple[Value, ...]] | None:
    """Give the function and the arguments of a call; None for any other instruction."""
    return called(step.taken) if step.instruction.opname in _CALLS and len(step.taken) > 1 else None


def _text(value: Value) -> str:
    return value.form.text if isinstance(value.form, Constant) else ""


def _words(text: str) -> tuple[str, ...]:
    """Read a tuple of names as its repr has it."""
    parts = (part.strip(" '\"") for part in text.strip("()").split(","))
    return tuple(part for part in parts if part)


_ACTS: dict[str, Callable[[_Move], _Done]] = {
    "SWAP": _Move.swap,
    "COPY": _Move.copy,
    "LOAD_CONST": _Move.constant,
    "MAKE_FUNCTION": _Move.make_function,
    "SET_FUNCTION_ATTRIBUTE": _Move.set_function,
    "PUSH_NULL": _Move.null,
    "LOAD_FAST": _Move.load_local,
    "LOAD_FAST_CHECK": _Move.load_local,
    "LOAD_FAST_LOAD_FAST": _Move.load_local,
    "STORE_FAST": _Move.store_local,
    "STORE_FAST_STORE_FAST": _Move.store_local,
    "STORE_FAST_LOAD_FAST": _Move.store_and_load,
    "LOAD_CLOSURE": _Move.load_closure,
    "LOAD_DEREF": _Move.load_closure,
    "LOAD_GLOBAL": _Move.load_global,
    "LOAD_ATTR": _Move.load_attribute,
    "LOAD_METHOD": _Move.load_attribute,
    "BUILD_TUPLE": _Move.build,
    "BUILD_SET": _Move.build,
    "BUILD_MAP": _Move.build,
    "BUILD_SLICE": _Move.build,
    "BUILD_LIST": _Move.build_list,
    "LIST_EXTEND": _Move.extend,
    "LIST_APPEND": _Move.extend,
    "BINARY_SUBSCR": _Move.item,
    "BINARY_SLICE": _Move.sliced,
    "STORE_SUBSCR": _Move.store_item,
    "STORE_SLICE": _Move.store_slice,
    "DELETE_SUBSCR": _Move.delete_item,
    "UNPACK_SEQUENCE": _Move.unpack,
    "KW_NAMES": _Move.name_keywords,
    "CALL": _Move.call,
    "CALL_KW": _Move.call,
    "CALL_FUNCTION_EX": _Move.call,
}
