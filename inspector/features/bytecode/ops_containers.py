"""Subscripts and unpacking; the items of a container that has not escaped are known.

Instructions that build containers, which stay private to the function until a step takes them.
"""

from ctrace.inspector.facts.bytecode_facts import Code, Instruction
from ctrace.inspector.features.bytecode.ops_stack import const, evaluated, items_of
from ctrace.inspector.features.bytecode.symbolic_machine import (
    Const,
    Contents,
    EventResult,
    Fresh,
    Machine,
    Next,
    Operation,
    Pair,
    PathState,
    StopError,
    UnpackedIterable,
    Value,
)

# A damaged log may name any count, and each value is an object here.
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


ITEM_OPERATIONS: dict[str, Operation] = {
    "BINARY_SUBSCR": _subscript,
    "BINARY_SLICE": _slice,
    "STORE_SUBSCR": _store_subscript,
    "STORE_SLICE": _store_slice,
    "DELETE_SUBSCR": _delete_subscript,
    "UNPACK_SEQUENCE": _unpack,
    "UNPACK_EX": _unpack_rest,
}


_PLAIN_KEYS = ("str", "int", "bool", "NoneType", "bytes")
"""Types of constants whose hash and comparison run no user code."""
_FUNCTION_PARTS = ((1, "defaults"), (2, "keyword_defaults"), (4, "annotations"), (8, "closure"))


def _build_list(machine: Machine, state: PathState, here: Instruction) -> Next:
    state.stack.append(machine.fresh(state, "list", Contents(tuple(state.take(here.arg or 0)))))
    return None


def _build_tuple(machine: Machine, state: PathState, here: Instruction) -> Next:
    state.stack.append(tuple_of(machine, state, tuple(state.take(here.arg or 0))))
    return None


def tuple_of(machine: Machine, state: PathState, items: tuple[Value, ...]) -> Value:
    """Return a tuple; if all items are constants, the tuple is a constant too, because the compiler folds it."""
    plain = [item for item in items if isinstance(item, Const) and "<" not in item.type and item.type != "frozenset"]
    if len(plain) != len(items):
        return machine.fresh(state, "tuple", Contents(items))
    try:
        return const(tuple(evaluated(item) for item in plain))
    except StopError:
        return machine.fresh(state, "tuple", Contents(items))


def _build_slice(machine: Machine, state: PathState, here: Instruction) -> Next:
    state.stack.append(machine.fresh(state, "slice", Contents(tuple(state.take(here.arg or 0)))))
    return None


def _build_set(machine: Machine, state: PathState, here: Instruction) -> Next:
    items = tuple(state.take(here.arg or 0))
    if items:
        state.stack.append(machine.value(state, here, "set", items))
    else:
        state.stack.append(machine.fresh(state, "set", Contents(())))
    return None


def _build_string(machine: Machine, state: PathState, here: Instruction) -> Next:
    state.stack.append(machine.value(state, here, "string", tuple(state.take(here.arg or 0))))
    return None


def _build_map(machine: Machine, state: PathState, here: Instruction) -> Next:
    flat = state.take(2 * (here.arg or 0))
    _push_dict(machine, state, here, [Pair(key, value) for key, value in zip(flat[::2], flat[1::2], strict=True)])
    return None


def _build_const_key_map(machine: Machine, state: PathState, here: Instruction) -> Next:
    names = items_of(state.pop())
    values = state.take(here.arg or 0)
    if len(names) != len(values):
        raise StopError(f"The dict at offset {here.offset} has different numbers of keys and values.")
    pairs = [Pair(const(key), value) for key, value in zip(names, values, strict=True)]
    _push_dict(machine, state, here, pairs)
    return None


def _push_dict(machine: Machine, state: PathState, here: Instruction, pairs: list[Pair]) -> None:
    if all(_is_plain_key(pair.key) for pair in pairs):
        state.stack.append(machine.fresh(state, "dict", Contents(tuple(pairs))))
    else:
        state.stack.append(machine.value(state, here, "dict", tuple(pairs)))


def _is_plain_key(key: Value) -> bool:
    return isinstance(key, Const) and key.type in _PLAIN_KEYS


def _list_append(machine: Machine, state: PathState, here: Instruction) -> Next:
    value = state.pop()
    owner = state.stack[-(here.arg or 0)]
    if not machine.own(state, owner, "list"):
        raise StopError(f"The list at offset {here.offset} is visible outside the function.")
    assert isinstance(owner, Fresh)
    state.heap[owner] = Contents((*state.heap[owner].items, value))
    return None


def _list_extend(machine: Machine, state: PathState, here: Instruction) -> Next:
    value = state.pop()
    owner = state.stack[-(here.arg or 0)]
    if not machine.own(state, owner, "list"):
        raise StopError(f"The list at offset {here.offset} is visible outside the function.")
    assert isinstance(owner, Fresh)
    items = known_items(machine, state, value)
    if items is None and isinstance(value, Const) and value.type == "tuple":
        items = tuple(const(item) for item in items_of(value))
    if items is None:
        items = (UnpackedIterable(machine.value(state, here, "spread", (value,))),)
    state.heap[owner] = Contents(state.heap[owner].items + items)
    return None


def _list_to_tuple(machine: Machine, state: PathState, here: Instruction) -> Next:
    value = state.pop()
    if not machine.own(state, value, "list"):
        raise StopError(f"The list at offset {here.offset} is visible outside the function.")
    assert isinstance(value, Fresh)
    state.stack.append(tuple_of(machine, state, state.heap[value].items))
    return None


def _intrinsic(machine: Machine, state: PathState, here: Instruction) -> Next:
    match here.arg:
        case 5:
            state.stack.append(machine.value(state, here, "unary", (state.pop(),), "+"))
        case 6:
            return _list_to_tuple(machine, state, here)
        case _:
            raise StopError(f"The instruction CALL_INTRINSIC_1 {here.arg} at offset {here.offset} is not supported.")
    return None


def _set_update(machine: Machine, state: PathState, here: Instruction) -> Next:
    value = state.pop()
    owner = state.stack[-(here.arg or 0)]
    if not (isinstance(value, Const) and machine.own(state, owner, "set")):
        raise StopError(f"The instruction SET_UPDATE at offset {here.offset} adds values that are not constants.")
    assert isinstance(owner, Fresh)
    state.heap[owner] = Contents((*state.heap[owner].items, UnpackedIterable(value)))
    return None


def _dict_update(machine: Machine, state: PathState, here: Instruction) -> Next:
    value = state.pop()
    owner = state.stack[-(here.arg or 0)]
    if not machine.own(state, owner, "dict"):
        raise StopError(f"The dict at offset {here.offset} is visible outside the function.")
    assert isinstance(owner, Fresh)
    held = state.heap[owner].items
    unseen = machine.own(state, value, "dict")
    if unseen and (here.opname == "DICT_UPDATE" or not held):
        assert isinstance(value, Fresh)
        added = state.heap[value].items
    else:
        # The step records the existing keys, because DICT_MERGE raises for a duplicate key.
        keys = tuple(pair.key for pair in held if isinstance(pair, Pair))
        added = (UnpackedIterable(machine.value(state, here, here.opname.lower(), (value,), keys)),)
    state.heap[owner] = Contents(held + added)
    return None


def _map_add(machine: Machine, state: PathState, here: Instruction) -> Next:
    key, value = state.take(2)
    owner = state.stack[-(here.arg or 0)]
    if not (machine.own(state, owner, "dict") and _is_plain_key(key)):
        raise StopError(f"The instruction MAP_ADD at offset {here.offset} adds a key that is not a plain constant.")
    assert isinstance(owner, Fresh)
    state.heap[owner] = Contents((*state.heap[owner].items, Pair(key, value)))
    return None


def _make_function(machine: Machine, state: PathState, here: Instruction) -> Next:
    state.pop()
    flags = 0 if machine.version >= (3, 13) else here.arg or 0
    names = [name for flag, name in _FUNCTION_PARTS if flags & flag]
    items = state.take(len(names))
    contents = Contents(tuple(items), _code_loaded_before(machine, here), tuple(names))
    state.stack.append(machine.fresh(state, "function", contents))
    return None


def _code_loaded_before(machine: Machine, here: Instruction) -> Code:
    """Return the code object by its constant's number, since two code objects can have the same text."""
    before = [each for each in machine.code.instructions if each.offset < here.offset]
    if not before or before[-1].opname != "LOAD_CONST":
        raise StopError(f"The code of the function at offset {here.offset} is not loaded right before it.")
    code = machine.code.constants[before[-1].arg or 0].code
    if code is None:
        raise StopError(f"The code of the function at offset {here.offset} is not known.")
    return code


def _set_function_attribute(machine: Machine, state: PathState, here: Instruction) -> Next:
    part, function = state.take(2)
    name = dict(_FUNCTION_PARTS).get(here.arg or 0)
    if name is None or not machine.own(state, function, "function"):
        raise StopError(f"The instruction SET_FUNCTION_ATTRIBUTE at offset {here.offset} is not supported.")
    assert isinstance(function, Fresh)
    held = state.heap[function]
    parts = {**dict(zip(held.parts, held.items, strict=True)), name: part}
    ordered = {each: parts[each] for _, each in _FUNCTION_PARTS if each in parts}
    state.heap[function] = Contents(tuple(ordered.values()), held.code, tuple(ordered))
    state.stack.append(function)
    return None


BUILD_OPERATIONS: dict[str, Operation] = {
    "BUILD_LIST": _build_list,
    "BUILD_TUPLE": _build_tuple,
    "BUILD_SLICE": _build_slice,
    "BUILD_SET": _build_set,
    "BUILD_STRING": _build_string,
    "BUILD_MAP": _build_map,
    "BUILD_CONST_KEY_MAP": _build_const_key_map,
    "LIST_APPEND": _list_append,
    "LIST_EXTEND": _list_extend,
    "LIST_TO_TUPLE": _list_to_tuple,
    "CALL_INTRINSIC_1": _intrinsic,
    "SET_UPDATE": _set_update,
    "DICT_UPDATE": _dict_update,
    "DICT_MERGE": _dict_update,
    "MAP_ADD": _map_add,
    "MAKE_FUNCTION": _make_function,
    "SET_FUNCTION_ATTRIBUTE": _set_function_attribute,
}
