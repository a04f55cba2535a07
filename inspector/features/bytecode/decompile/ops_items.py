"""Subscripts and unpacking; the items of a container that has not escaped are known."""

from ctrace.inspector.facts.bytecode_facts import Instruction
from ctrace.inspector.features.bytecode.decompile.constant_literals import evaluated
from ctrace.inspector.features.bytecode.decompile.symbolic_machine import Machine, Next, Operation
from ctrace.inspector.features.bytecode.decompile.symbolic_values import (
    Const,
    Contents,
    EventResult,
    Fresh,
    PathState,
    StopError,
    UnpackedIterable,
    Value,
)

_MOST_VALUES = 100_000


def _subscript(machine: Machine, state: PathState, here: Instruction) -> Next:
    owner, key = state.take(2)
    state.stack.append(_item(machine, state, owner, key) or machine.value(state, here, "getitem", (owner, key)))
    return None


def _slice(machine: Machine, state: PathState, here: Instruction) -> Next:
    owner, start, stop = state.take(3)
    key = machine.fresh(state, "slice", Contents((start, stop)))
    state.stack.append(_item(machine, state, owner, key) or machine.value(state, here, "getitem", (owner, key)))
    return None


def known_items(machine: Machine, state: PathState, owner: Value) -> tuple[Value, ...] | None:
    """Return the items of a tuple, or of a list that has not escaped, or None if not all are known."""
    if not isinstance(owner, Fresh) or not (owner.kind == "tuple" or machine.own(state, owner, "list")):
        return None
    items = state.heap[owner].items
    if any(isinstance(item, UnpackedIterable) for item in items):
        return None
    return items


def _item(machine: Machine, state: PathState, owner: Value, key: Value) -> Value | None:
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


def _index(state: PathState, key: Value) -> int | slice | None:
    if isinstance(key, Const) and key.type == "int":
        return int(evaluated(key))
    if isinstance(key, Fresh) and key.kind == "slice":
        ends = state.heap[key].items
        if all(isinstance(end, Const) and end.type in ("int", "NoneType") for end in ends):
            return slice(*(evaluated(end) for end in ends if isinstance(end, Const)))
    return None


def _store_subscript(machine: Machine, state: PathState, here: Instruction) -> Next:
    value, owner, key = state.take(3)
    if not _store_known(machine, state, owner, key, value):
        machine.event(state, here, "setitem", (value, owner, key), None, 0)
    return None


def _store_slice(machine: Machine, state: PathState, here: Instruction) -> Next:
    value, owner, start, stop = state.take(4)
    key = machine.fresh(state, "slice", Contents((start, stop)))
    if not _store_known(machine, state, owner, key, value):
        machine.event(state, here, "setitem", (value, owner, key), None, 0)
    return None


def _store_known(machine: Machine, state: PathState, owner: Value, key: Value, value: Value) -> bool:
    """Store into a list if its items are known; return whether they are."""
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
    state.heap[owner] = Contents(tuple(changed))
    return True


def _delete_subscript(machine: Machine, state: PathState, here: Instruction) -> Next:
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


def _unpack(machine: Machine, state: PathState, here: Instruction) -> Next:
    value, count = state.pop(), _count(here, here.arg or 0)
    items = known_items(machine, state, value)
    if items is None or len(items) != count:
        made = machine.event(state, here, "unpack", (value,), count, count)
        items = parts(made.number, count)
    state.stack.extend(items[::-1])
    return None


def _count(here: Instruction, count: int) -> int:
    """Return the number of values to unpack; raise StopError if only a damaged log can contain it."""
    if not 0 <= count <= _MOST_VALUES:
        raise StopError(f"The instruction at offset {here.offset} unpacks too many values.")
    return count


def _unpack_rest(machine: Machine, state: PathState, here: Instruction) -> Next:
    before, after = (here.arg or 0) & 255, (here.arg or 0) >> 8
    _count(here, before + 1 + after)
    made = machine.event(state, here, "unpack_rest", (state.pop(),), (before, after), before + 1 + after)
    state.stack.extend(parts(made.number, before + 1 + after)[::-1])
    return None


def parts(number: int, count: int) -> tuple[Value, ...]:
    """Return the results of an event that has several."""
    return tuple(EventResult(number, part) for part in range(count))


OPERATIONS: dict[str, Operation] = {
    "BINARY_SUBSCR": _subscript,
    "BINARY_SLICE": _slice,
    "STORE_SUBSCR": _store_subscript,
    "STORE_SLICE": _store_slice,
    "DELETE_SUBSCR": _delete_subscript,
    "UNPACK_SEQUENCE": _unpack,
    "UNPACK_EX": _unpack_rest,
}
