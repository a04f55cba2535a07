"""Instructions that run code of the objects they work on, or read and write what others share."""

from ctrace.inspector.bytecode import Instruction
from ctrace.inspector.decompile.literals import evaluated
from ctrace.inspector.decompile.machine import Machine, Next, Operation
from ctrace.inspector.decompile.values import (
    NULL,
    Cell,
    Const,
    Contents,
    Fresh,
    Is,
    Made,
    Not,
    Pair,
    Spread,
    State,
    StopError,
    Value,
)

_BINARY = ("+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^")
_COMPARED = ("<", "<=", "==", "!=", ">", ">=")
_SINGLE = ("NoneType", "bool", "ellipsis")
_AS_TRUTH = 16
"""The bit of COMPARE_OP, from 3.13 on, that asks for the truth of the answer."""


def negated(value: Value) -> Value:
    """Give the other truth value."""
    return value.value if isinstance(value, Not) else Not(value)


def _load_global(machine: Machine, state: State, here: Instruction) -> Next:
    number = here.arg or 0
    value = machine.value(state, here, "load_global", (), machine.code.names[number >> 1])
    _push_callable(machine, state, value, bool(number & 1))
    return None


def _push_callable(machine: Machine, state: State, value: Value, called: bool) -> None:
    if not called:
        state.stack.append(value)
    elif machine.version >= (3, 13):
        state.stack.extend((value, NULL))
    else:
        state.stack.extend((NULL, value))


def _load_attr(machine: Machine, state: State, here: Instruction) -> Next:
    number = here.arg or 0
    flagged = machine.version >= (3, 12)
    name = machine.code.names[number >> 1 if flagged else number]
    value = _attribute(machine, state, here, state.pop(), name)
    _push_callable(machine, state, value, flagged and bool(number & 1))
    return None


def _load_method(machine: Machine, state: State, here: Instruction) -> Next:
    value = _attribute(machine, state, here, state.pop(), machine.code.names[here.arg or 0])
    _push_callable(machine, state, value, True)
    return None


def _attribute(machine: Machine, state: State, here: Instruction, owner: Value, name: str) -> Value:
    if name == "__closure__" and machine.own(state, owner, "function"):
        made = state.heap[owner]  # type: ignore[index]
        if "closure" in made.parts:
            return made.items[made.parts.index("closure")]
    return machine.value(state, here, "getattr", (owner,), name)


def _store_attr(machine: Machine, state: State, here: Instruction) -> Next:
    value, owner = state.take(2)
    machine.event(state, here, "setattr", (value, owner), machine.code.names[here.arg or 0], 0)
    return None


def _delete_attr(machine: Machine, state: State, here: Instruction) -> Next:
    machine.event(state, here, "delattr", (state.pop(),), machine.code.names[here.arg or 0], 0)
    return None


def _store_global(machine: Machine, state: State, here: Instruction) -> Next:
    machine.event(state, here, "store_global", (state.pop(),), machine.code.names[here.arg or 0], 0)
    return None


def _delete_global(machine: Machine, state: State, here: Instruction) -> Next:
    machine.event(state, here, "delete_global", (), machine.code.names[here.arg or 0], 0)
    return None


def _subscript(machine: Machine, state: State, here: Instruction) -> Next:
    owner, key = state.take(2)
    state.stack.append(_item(machine, state, owner, key) or machine.value(state, here, "getitem", (owner, key)))
    return None


def _slice(machine: Machine, state: State, here: Instruction) -> Next:
    owner, start, stop = state.take(3)
    key = machine.fresh(state, "slice", Contents((start, stop)))
    state.stack.append(_item(machine, state, owner, key) or machine.value(state, here, "getitem", (owner, key)))
    return None


def known_items(machine: Machine, state: State, owner: Value) -> tuple[Value, ...] | None:
    """Give the items of a list that nobody else has seen, or of a tuple; None where they are not all known."""
    if not isinstance(owner, Fresh) or not (owner.kind == "tuple" or machine.own(state, owner, "list")):
        return None
    items = state.heap[owner].items
    return None if any(isinstance(item, Spread) for item in items) else items


def _item(machine: Machine, state: State, owner: Value, key: Value) -> Value | None:
    items = known_items(machine, state, owner)
    if items is None:
        return None
    index = _index(state, key)
    match index:
        case int() if -len(items) <= index < len(items):
            return items[index]
        case slice():
            assert isinstance(owner, Fresh)
            return machine.fresh(state, owner.kind, Contents(items[index]))
        case _:
            return None


def _index(state: State, key: Value) -> int | slice | None:
    if isinstance(key, Const) and key.type == "int":
        return int(evaluated(key))
    if isinstance(key, Fresh) and key.kind == "slice":
        ends = state.heap[key].items
        if all(isinstance(end, Const) and end.type in ("int", "NoneType") for end in ends):
            return slice(*(evaluated(end) for end in ends if isinstance(end, Const)))
    return None


def _store_subscript(machine: Machine, state: State, here: Instruction) -> Next:
    value, owner, key = state.take(3)
    if not _stored(machine, state, owner, key, value):
        machine.event(state, here, "setitem", (value, owner, key), None, 0)
    return None


def _store_slice(machine: Machine, state: State, here: Instruction) -> Next:
    value, owner, start, stop = state.take(4)
    key = machine.fresh(state, "slice", Contents((start, stop)))
    if not _stored(machine, state, owner, key, value):
        machine.event(state, here, "setitem", (value, owner, key), None, 0)
    return None


def _stored(machine: Machine, state: State, owner: Value, key: Value, value: Value) -> bool:
    """Store into a list that nobody else has seen, where all of it is known."""
    if not machine.own(state, owner, "list") or (items := known_items(machine, state, owner)) is None:
        return False
    assert isinstance(owner, Fresh)
    index, changed = _index(state, key), list(items)
    if isinstance(index, int) and -len(items) <= index < len(items):
        changed[index] = value
    elif isinstance(index, slice) and index.step is None and (new := known_items(machine, state, value)) is not None:
        changed[index] = new
    else:
        return False
    if _holds(state, changed, owner):
        # Written in a line of its own: no expression makes a list that holds itself.
        return False
    state.heap[owner] = Contents(tuple(changed))
    return True


def _holds(state: State, items: list[Value], owner: Value) -> bool:
    """Say whether a container is among some values or in what they hold."""
    waiting, seen = list(items), set()
    while waiting:
        value = waiting.pop()
        if value == owner:
            return True
        if value in seen:
            continue
        seen.add(value)
        match value:
            case Fresh():
                waiting.extend(state.heap[value].items)
            case Pair(key, item):
                waiting.extend((key, item))
            case Spread(inner):
                waiting.append(inner)
    return False


def _delete_subscript(machine: Machine, state: State, here: Instruction) -> Next:
    owner, key = state.take(2)
    if machine.own(state, owner, "list") and (items := known_items(machine, state, owner)) is not None:
        assert isinstance(owner, Fresh)
        index = _index(state, key)
        if isinstance(index, int) and -len(items) <= index < len(items):
            changed = list(items)
            del changed[index]
            state.heap[owner] = Contents(tuple(changed))
            return None
    machine.event(state, here, "delitem", (owner, key), None, 0)
    return None


def _unary(machine: Machine, state: State, here: Instruction) -> Next:
    state.stack.append(machine.value(state, here, "unary", (state.pop(),), _UNARY[here.opname]))
    return None


_UNARY = {"UNARY_POSITIVE": "+", "UNARY_NEGATIVE": "-", "UNARY_INVERT": "~"}


def _not(machine: Machine, state: State, here: Instruction) -> Next:
    state.stack.append(negated(machine.truth(state, here, state.pop())))
    return None


def _to_bool(machine: Machine, state: State, here: Instruction) -> Next:
    state.stack.append(machine.truth(state, here, state.pop()))
    return None


def _binary(machine: Machine, state: State, here: Instruction) -> Next:
    left, right = state.take(2)
    number = here.arg or 0
    op = "binary" if number < len(_BINARY) else "inplace"
    state.stack.append(machine.value(state, here, op, (left, right), _BINARY[number % len(_BINARY)]))
    return None


def _compare(machine: Machine, state: State, here: Instruction) -> Next:
    left, right = state.take(2)
    number = here.arg or 0
    shift = {11: 0, 12: 4}.get(machine.version[1], 5)
    answer: Value = machine.value(state, here, "compare", (left, right), _COMPARED[number >> shift])
    if shift == 5 and number & _AS_TRUTH:
        answer = machine.truth(state, here, answer)
    state.stack.append(answer)
    return None


def _is(machine: Machine, state: State, here: Instruction) -> Next:
    left, right = state.take(2)
    answer = same(left, right)
    state.stack.append(negated(answer) if here.arg else answer)
    return None


def same(left: Value, right: Value) -> Value:
    """Give whether two values are one object."""
    if isinstance(left, Fresh | Cell) or isinstance(right, Fresh | Cell):
        raise StopError("It asks whether a container that it builds itself is another object.")
    if any(isinstance(each, Const) and each.type not in _SINGLE for each in (left, right)):
        raise StopError("It asks for the identity of a constant, which is not the same in every code.")
    return Is(left, right)


def _contains(machine: Machine, state: State, here: Instruction) -> Next:
    item, owner = state.take(2)
    answer = machine.value(state, here, "contains", (item, owner))
    machine.bools.add(answer.event)
    state.stack.append(negated(answer) if here.arg else answer)
    return None


def _unpack(machine: Machine, state: State, here: Instruction) -> Next:
    value, count = state.pop(), here.arg or 0
    items = known_items(machine, state, value)
    if items is None or len(items) != count:
        made = machine.event(state, here, "unpack", (value,), count, count)
        items = parts(made.number, count)
    state.stack.extend(items[::-1])
    return None


def _unpack_rest(machine: Machine, state: State, here: Instruction) -> Next:
    before, after = (here.arg or 0) & 255, (here.arg or 0) >> 8
    made = machine.event(state, here, "unpack_rest", (state.pop(),), (before, after), before + 1 + after)
    state.stack.extend(parts(made.number, before + 1 + after)[::-1])
    return None


def parts(number: int, count: int) -> tuple[Value, ...]:
    """Give the values of an event that gives several."""
    return tuple(Made(number, part) for part in range(count))


def _get_iter(machine: Machine, state: State, here: Instruction) -> Next:
    state.stack.append(machine.value(state, here, "iter", (state.pop(),)))
    return None


def _format(machine: Machine, state: State, here: Instruction) -> Next:
    number = here.arg or 0
    spec = (state.pop(),) if number & 4 else ()
    state.stack.append(machine.value(state, here, "format", (state.pop(), *spec), number & 3))
    return None


def _convert(machine: Machine, state: State, here: Instruction) -> Next:
    state.stack.append(machine.value(state, here, "convert", (state.pop(),), here.arg))
    return None


def _format_simple(machine: Machine, state: State, here: Instruction) -> Next:
    state.stack.append(machine.value(state, here, "format", (state.pop(),), 0))
    return None


def _format_spec(machine: Machine, state: State, here: Instruction) -> Next:
    value, spec = state.take(2)
    state.stack.append(machine.value(state, here, "format", (value, spec), 0))
    return None


def _import_name(machine: Machine, state: State, here: Instruction) -> Next:
    level, names = state.take(2)
    state.stack.append(machine.value(state, here, "import", (level, names), machine.code.names[here.arg or 0]))
    return None


def _import_from(machine: Machine, state: State, here: Instruction) -> Next:
    name = machine.code.names[here.arg or 0]
    state.stack.append(machine.value(state, here, "import_from", (state.stack[-1],), name))
    return None


OPERATIONS: dict[str, Operation] = {
    "LOAD_GLOBAL": _load_global,
    "STORE_GLOBAL": _store_global,
    "DELETE_GLOBAL": _delete_global,
    "LOAD_ATTR": _load_attr,
    "LOAD_METHOD": _load_method,
    "STORE_ATTR": _store_attr,
    "DELETE_ATTR": _delete_attr,
    "BINARY_SUBSCR": _subscript,
    "BINARY_SLICE": _slice,
    "STORE_SUBSCR": _store_subscript,
    "STORE_SLICE": _store_slice,
    "DELETE_SUBSCR": _delete_subscript,
    **dict.fromkeys(_UNARY, _unary),
    "UNARY_NOT": _not,
    "TO_BOOL": _to_bool,
    "BINARY_OP": _binary,
    "COMPARE_OP": _compare,
    "IS_OP": _is,
    "CONTAINS_OP": _contains,
    "UNPACK_SEQUENCE": _unpack,
    "UNPACK_EX": _unpack_rest,
    "GET_ITER": _get_iter,
    "FORMAT_VALUE": _format,
    "CONVERT_VALUE": _convert,
    "FORMAT_SIMPLE": _format_simple,
    "FORMAT_WITH_SPEC": _format_spec,
    "IMPORT_NAME": _import_name,
    "IMPORT_FROM": _import_from,
}
