"""The supported instructions of Python 3.11 to 3.13, each as what it does to the state of the symbolic machine.

They come in groups, each with a table at its end; `OPERATIONS` joins the tables:

- Those without effects outside the function move values between the stack and local variables. Constants are
  converted from their text in the log to values and to source.
- Subscripts and unpacking: the items of a container that has not escaped are known.
- Those that build containers, which stay private to the function until a step takes them.
- Steps: they may run user code, or read or write shared state.
- Calls of 3.11, 3.12 and 3.13; all become the step `call` or `call_ex`.
- Those that jump, raise or handle exceptions.
"""

import ast
from typing import Any

from ctrace.inspector.facts.bytecode_facts import Code, Constant, Instruction
from ctrace.inspector.features.bytecode.symbolic_machine import (
    END,
    NONE,
    NULL,
    Arg,
    Cell,
    Const,
    Contents,
    EventResult,
    Fresh,
    Is,
    Machine,
    Next,
    Not,
    NullValue,
    Operation,
    Pair,
    PathState,
    Placeholder,
    Placeholders,
    SavedException,
    StopError,
    Traced,
    UnpackedIterable,
    Value,
)
from ctrace.inspector.source.disassembly import constant_text

_BINARY = ("+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^")
_COMPARED = ("<", "<=", "==", "!=", ">", ">=")
_SINGLE = ("NoneType", "bool", "ellipsis")
_AS_TRUTH = 16
"""The bit of COMPARE_OP, from 3.13 on, that converts the result to a bool."""


def negated(value: Value) -> Value:
    """Return the negation of a truth value."""
    if isinstance(value, Not):
        return value.value
    return Not(value)


def _load_global(machine: Machine, state: PathState, here: Instruction) -> Next:
    number = here.arg or 0
    value = machine.value(state, here, "load_global", (), machine.code.names[number >> 1])
    _push_callable(machine, state, value, bool(number & 1))
    return None


def _push_callable(machine: Machine, state: PathState, value: Value, called: bool) -> None:
    if not called:
        state.stack.append(value)
    elif machine.version >= (3, 13):
        state.stack.extend((value, NULL))
    else:
        state.stack.extend((NULL, value))


def _load_attr(machine: Machine, state: PathState, here: Instruction) -> Next:
    number, is_method = here.arg or 0, False
    if machine.version >= (3, 12):  # the lowest bit says that a call follows, as LOAD_METHOD did before
        number, is_method = number >> 1, bool(number & 1)
    value = _attribute(machine, state, here, state.pop(), machine.code.names[number])
    _push_callable(machine, state, value, is_method)
    return None


def _load_method(machine: Machine, state: PathState, here: Instruction) -> Next:
    value = _attribute(machine, state, here, state.pop(), machine.code.names[here.arg or 0])
    _push_callable(machine, state, value, True)
    return None


def _attribute(machine: Machine, state: PathState, here: Instruction, owner: Value, name: str) -> Value:
    # The writer takes a cell from a new lambda (`_cell`), which nothing outside has seen: that is no step.
    if name == "__closure__" and machine.own(state, owner, "function"):
        made = state.heap[owner]  # type: ignore[index]
        if "closure" in made.parts:
            return made.items[made.parts.index("closure")]
    return machine.value(state, here, "getattr", (owner,), name)


def _store_attr(machine: Machine, state: PathState, here: Instruction) -> Next:
    value, owner = state.take(2)
    machine.event(state, here, "setattr", (value, owner), machine.code.names[here.arg or 0], 0)
    return None


def _delete_attr(machine: Machine, state: PathState, here: Instruction) -> Next:
    machine.event(state, here, "delattr", (state.pop(),), machine.code.names[here.arg or 0], 0)
    return None


def _store_global(machine: Machine, state: PathState, here: Instruction) -> Next:
    machine.event(state, here, "store_global", (state.pop(),), machine.code.names[here.arg or 0], 0)
    return None


def _delete_global(machine: Machine, state: PathState, here: Instruction) -> Next:
    machine.event(state, here, "delete_global", (), machine.code.names[here.arg or 0], 0)
    return None


def _unary(machine: Machine, state: PathState, here: Instruction) -> Next:
    state.stack.append(machine.value(state, here, "unary", (state.pop(),), _UNARY[here.opname]))
    return None


_UNARY = {"UNARY_POSITIVE": "+", "UNARY_NEGATIVE": "-", "UNARY_INVERT": "~"}


def _not(machine: Machine, state: PathState, here: Instruction) -> Next:
    state.stack.append(negated(machine.truth(state, here, state.pop())))
    return None


def _to_bool(machine: Machine, state: PathState, here: Instruction) -> Next:
    state.stack.append(machine.truth(state, here, state.pop()))
    return None


def _binary(machine: Machine, state: PathState, here: Instruction) -> Next:
    left, right = state.take(2)
    number = here.arg or 0
    # The numbers of `+=` and the like follow those of `+`, in the same order (CPython, Include/opcode.h).
    op = "binary" if number < len(_BINARY) else "inplace"
    state.stack.append(machine.value(state, here, op, (left, right), _BINARY[number % len(_BINARY)]))
    return None


def _compare(machine: Machine, state: PathState, here: Instruction) -> Next:
    left, right = state.take(2)
    number = here.arg or 0
    # From 3.12 on, the lowest bits are hints for the interpreter, and from 3.13 on one of them asks for a bool.
    shift = {11: 0, 12: 4}.get(machine.version[1], 5)
    answer: Value = machine.value(state, here, "compare", (left, right), _COMPARED[number >> shift])
    if shift == 5 and number & _AS_TRUTH:
        answer = machine.truth(state, here, answer)
    state.stack.append(answer)
    return None


def _is(machine: Machine, state: PathState, here: Instruction) -> Next:
    left, right = state.take(2)
    answer = same(left, right)
    if here.arg:  # `is not`
        answer = negated(answer)
    state.stack.append(answer)
    return None


def same(left: Value, right: Value) -> Value:
    """Return the value of `left is right`."""
    if isinstance(left, Fresh | Cell) or isinstance(right, Fresh | Cell):
        raise StopError("It compares the identity of a container that it builds.")
    if any(isinstance(each, Const) and each.type not in _SINGLE for each in (left, right)):
        raise StopError("It compares the identity of a constant, which can differ between code objects.")
    return Is(left, right)


def _contains(machine: Machine, state: PathState, here: Instruction) -> Next:
    item, owner = state.take(2)
    answer = machine.value(state, here, "contains", (item, owner))
    machine.bools.add(answer.event)  # `in` always answers with a bool, so `not` of it needs no test
    state.stack.append(negated(answer) if here.arg else answer)
    return None


def _get_iter(machine: Machine, state: PathState, here: Instruction) -> Next:
    state.stack.append(machine.value(state, here, "iter", (state.pop(),)))
    return None


def _format(machine: Machine, state: PathState, here: Instruction) -> Next:
    number = here.arg or 0
    spec: tuple[Value, ...] = ()
    if number & 4:  # a format specification lies above the value
        spec = (state.pop(),)
    state.stack.append(machine.value(state, here, "format", (state.pop(), *spec), number & 3))
    return None


def _convert(machine: Machine, state: PathState, here: Instruction) -> Next:
    state.stack.append(machine.value(state, here, "convert", (state.pop(),), here.arg))
    return None


def _format_simple(machine: Machine, state: PathState, here: Instruction) -> Next:
    state.stack.append(machine.value(state, here, "format", (state.pop(),), 0))
    return None


def _format_spec(machine: Machine, state: PathState, here: Instruction) -> Next:
    value, spec = state.take(2)
    state.stack.append(machine.value(state, here, "format", (value, spec), 0))
    return None


def _import_name(machine: Machine, state: PathState, here: Instruction) -> Next:
    level, names = state.take(2)
    state.stack.append(machine.value(state, here, "import", (level, names), machine.code.names[here.arg or 0]))
    return None


def _import_from(machine: Machine, state: PathState, here: Instruction) -> Next:
    # The module stays on the stack for the next name.
    name = machine.code.names[here.arg or 0]
    state.stack.append(machine.value(state, here, "import_from", (state.stack[-1],), name))
    return None


STEP_OPERATIONS: dict[str, Operation] = {
    "LOAD_GLOBAL": _load_global,
    "STORE_GLOBAL": _store_global,
    "DELETE_GLOBAL": _delete_global,
    "LOAD_ATTR": _load_attr,
    "LOAD_METHOD": _load_method,
    "STORE_ATTR": _store_attr,
    "DELETE_ATTR": _delete_attr,
    **dict.fromkeys(_UNARY, _unary),
    "UNARY_NOT": _not,
    "TO_BOOL": _to_bool,
    "BINARY_OP": _binary,
    "COMPARE_OP": _compare,
    "IS_OP": _is,
    "CONTAINS_OP": _contains,
    "GET_ITER": _get_iter,
    "FORMAT_VALUE": _format,
    "CONVERT_VALUE": _convert,
    "FORMAT_SIMPLE": _format_simple,
    "FORMAT_WITH_SPEC": _format_spec,
    "IMPORT_NAME": _import_name,
    "IMPORT_FROM": _import_from,
}


def _keywords(machine: Machine, state: PathState, here: Instruction) -> Next:
    state.keywords = _names(here, constant(machine, here.arg or 0))
    return None


def _names(here: Instruction, names: Value) -> tuple[str, ...]:
    found = items_of(names)
    if not all(isinstance(name, str) for name in found):
        raise StopError(f"The keywords at offset {here.offset} are not strings.")
    return found


def _call(machine: Machine, state: PathState, here: Instruction) -> Next:
    keywords, state.keywords = state.keywords, ()
    _call_with(machine, state, here, keywords)
    return None


def _call_keywords(machine: Machine, state: PathState, here: Instruction) -> Next:
    _call_with(machine, state, here, _names(here, state.pop()))
    return None


def _call_with(machine: Machine, state: PathState, here: Instruction, keywords: tuple[str, ...]) -> None:
    arguments = state.take(here.arg or 0)
    first, second = state.take(2)
    # From 3.13 on, the function lies below its `self` or a NULL. Before, a NULL lies below a function, or a method lies
    # below its `self` (CPython, Python/bytecodes.c).
    extra: list[Value] = []
    if machine.version >= (3, 13) and second == NULL:
        function = first
    elif machine.version < (3, 13) and first == NULL:
        function = second
    else:
        function, extra = first, [second]
    _pushed(machine, state, here, function, (*extra, *arguments), keywords)


def _pushed(
    machine: Machine,
    state: PathState,
    here: Instruction,
    function: Value,
    arguments: tuple[Value, ...],
    keywords: tuple[str, ...],
) -> None:
    # Only a damaged log has these, and Python could not write them.
    if any(each == NULL for each in (function, *arguments)):
        raise StopError(f"The call at offset {here.offset} has NULL as its function or as an argument.")
    if len(keywords) > len(arguments):
        raise StopError(f"The call at offset {here.offset} has more keywords than arguments.")
    state.stack.append(machine.value(state, here, "call", (function, *arguments), keywords))


def _call_unpacked(machine: Machine, state: PathState, here: Instruction) -> Next:
    mapping = None
    if (here.arg or 0) & 1:
        mapping = state.pop()
    arguments = state.pop()
    first, second = state.take(2)
    function, empty = first, second
    if machine.version < (3, 13):  # the NULL lies below the function
        function, empty = second, first
    if empty != NULL:
        raise StopError(f"The call at offset {here.offset} has no NULL beside its function.")
    # `f(*[a, b], **{"c": d})` is written as `f(a, b, c=d)` where this code built both.
    positional = _positional(machine, state, arguments)
    named = _named(machine, state, mapping)
    if positional is None or named is None:
        operands: tuple[Value, ...] = (function, arguments)
        if mapping is not None:
            operands = (function, arguments, mapping)
        state.stack.append(machine.value(state, here, "call_ex", operands))
        return None
    pairs, keywords = named
    _pushed(machine, state, here, function, (*positional, *pairs), keywords)
    return None


def _positional(machine: Machine, state: PathState, arguments: Value) -> tuple[Value, ...] | None:
    """Return the items of a tuple or list that this function built for the call, or None for another iterable."""
    if isinstance(arguments, Const) and arguments.type == "tuple":
        return tuple(const(item) for item in items_of(arguments))
    # A tuple keeps its items after it has escaped; a list may have been changed by whoever got it.
    known = isinstance(arguments, Fresh) and (arguments.kind == "tuple" or machine.own(state, arguments, "list"))
    if known and isinstance(arguments, Fresh):
        return state.heap[arguments].items
    return None


def _named(
    machine: Machine, state: PathState, mapping: Value | None
) -> tuple[tuple[Value, ...], tuple[str, ...]] | None:
    """Return the values and names of a dict that this function built for the call, or None for another mapping."""
    if mapping is None:
        return (), ()
    if not isinstance(mapping, Fresh) or not machine.own(state, mapping, "dict"):
        return None
    values, names = [], []
    for pair in state.heap[mapping].items:
        if isinstance(pair, UnpackedIterable) or not isinstance(pair, Pair) or not isinstance(pair.key, Const):
            return None
        if pair.key.type != "str" or evaluated(pair.key) in names:  # no keyword, or one that Python would refuse
            return None
        values.append(pair.value)
        names.append(evaluated(pair.key))
    return tuple(values), tuple(names)


CALL_OPERATIONS: dict[str, Operation] = {
    "KW_NAMES": _keywords,
    "CALL": _call,
    "CALL_KW": _call_keywords,
    "CALL_FUNCTION_EX": _call_unpacked,
}


def _target(here: Instruction) -> int:
    if here.target is None:
        raise StopError(f"The jump at offset {here.offset} has no target.")
    return here.target


def _jump(machine: Machine, state: PathState, here: Instruction) -> Next:
    target = _target(here)
    if target > here.offset:
        return target
    # Only `for` loops are reconstructed: a jump back goes on with the next item of the innermost one.
    if not state.loops or state.loops[-1].head != target:
        raise StopError(f"The jump at offset {here.offset} forms a loop that is not a `for` loop.")
    if state.loops[-1].stack != state.stack:
        raise StopError(f"The loop that ends at offset {here.offset} keeps values on the stack.")
    return machine.leave(state, here, "continue", NONE)


def _split(machine: Machine, state: PathState, here: Instruction, test: Value, when: bool) -> Next:
    """Follow both branches of a jump that is taken if the test equals `when`."""
    if _target(here) <= here.offset:
        raise StopError(f"The jump at offset {here.offset} forms a loop that is not a `for` loop.")
    if when:
        ways = (_target(here), machine.after(here))
    else:
        ways = (machine.after(here), _target(here))
    return machine.branch(state, here, test, state.copy(), state.copy(), ways)


def _jump_if(machine: Machine, state: PathState, here: Instruction) -> Next:
    value, when = state.pop(), here.opname.endswith("TRUE")
    if isinstance(value, Const):  # only one way can be taken
        if bool(evaluated(value)) == when:
            return _target(here)
        return None
    return _split(machine, state, here, machine.truth(state, here, value), when)


def _jump_if_none(machine: Machine, state: PathState, here: Instruction) -> Next:
    value, when = state.pop(), not here.opname.endswith("NOT_NONE")
    if isinstance(value, Const):
        if (value == NONE) == when:
            return _target(here)
        return None
    return _split(machine, state, here, same(value, NONE), when)


def _jump_or_pop(machine: Machine, state: PathState, here: Instruction) -> Next:
    value, when = state.stack[-1], "TRUE" in here.opname
    if isinstance(value, Const):
        if bool(evaluated(value)) == when:
            return _target(here)
        state.pop()
        return None
    test = machine.truth(state, here, value)
    jumps, falls = state.copy(), state.copy()
    falls.pop()
    ways = (_target(here), machine.after(here))
    if when:
        return machine.branch(state, here, test, jumps, falls, ways)
    return machine.branch(state, here, test, falls, jumps, ways[::-1])


def _for_iter(machine: Machine, state: PathState, here: Instruction) -> Next:
    machine.loop(state, here, machine.after(here))
    if machine.version == (3, 11):
        state.pop()
    else:  # from 3.12 on, code behind the loop pops the iterator and a value above it (END_FOR)
        state.stack.append(NULL)
    return _target(here)


def _push_exception(machine: Machine, state: PathState, here: Instruction) -> Next:
    exception = state.pop()
    state.stack.extend((SavedException(state.handled), exception))
    state.handled = exception
    return None


def _pop_exception(machine: Machine, state: PathState, here: Instruction) -> Next:
    saved = state.pop()
    if not isinstance(saved, SavedException):
        raise StopError(f"The instruction POP_EXCEPT at offset {here.offset} has no saved exception on the stack.")
    state.handled = saved.handled
    return None


def _reraise(machine: Machine, state: PathState, here: Instruction) -> Next:
    return machine.raised(state, here, state.pop())


def _raise(machine: Machine, state: PathState, here: Instruction) -> Next:
    if not here.arg:  # `raise` alone
        if state.handled is None:
            raise StopError(f"The `raise` at offset {here.offset} reraises an exception that a caller is handling.")
        return machine.raised(state, here, state.handled)
    made = machine.event(state, here, "raise", tuple(state.take(here.arg)), None, 0)
    # What raises goes on in its handler, and not here.
    if made.failure is None:
        return machine.leave(state, here, "raised", NONE)
    return END


def _match(machine: Machine, state: PathState, here: Instruction) -> Next:
    kind = state.pop()
    # The exception stays on the stack.
    answer = machine.value(state, here, "match", (state.stack[-1], kind))
    machine.bools.add(answer.event)
    state.stack.append(answer)
    return None


def _before_with(machine: Machine, state: PathState, here: Instruction) -> Next:
    # Two results: what `as` names, and the method to leave with, which stays below it.
    made = machine.event(state, here, "enter", (state.pop(),), None, 2)
    state.stack.extend((EventResult(made.number, 1), EventResult(made.number, 0)))
    return None


def _with_failed(machine: Machine, state: PathState, here: Instruction) -> Next:
    # Between them lie the offset of the instruction that raised, and the exception handled before.
    leaving, exception = state.stack[-4], state.stack[-1]
    state.stack.append(machine.value(state, here, "exit_failed", (leaving, exception)))
    return None


_JUMPS = ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
_ON_TRUTH = ("POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE")
_ON_NONE = (
    "POP_JUMP_FORWARD_IF_NONE",
    "POP_JUMP_FORWARD_IF_NOT_NONE",
    "POP_JUMP_IF_NONE",
    "POP_JUMP_IF_NOT_NONE",
)

FLOW_OPERATIONS: dict[str, Operation] = {
    **dict.fromkeys(_JUMPS, _jump),
    **dict.fromkeys(_ON_TRUTH, _jump_if),
    **dict.fromkeys(_ON_NONE, _jump_if_none),
    "JUMP_IF_TRUE_OR_POP": _jump_or_pop,
    "JUMP_IF_FALSE_OR_POP": _jump_or_pop,
    "FOR_ITER": _for_iter,
    "PUSH_EXC_INFO": _push_exception,
    "POP_EXCEPT": _pop_exception,
    "RERAISE": _reraise,
    "RAISE_VARARGS": _raise,
    "CHECK_EXC_MATCH": _match,
    "BEFORE_WITH": _before_with,
    "WITH_EXCEPT_START": _with_failed,
}


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
        # A slice of a list or tuple is a new one, made without user code.
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
    # With a step, Python refuses another number of items.
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
    # Another number of items raises, so it is a step.
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
    # A set hashes its items, which may run user code.
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


def _own_list(machine: Machine, state: PathState, value: Value, here: Instruction) -> Fresh:
    """Return a value that is a list which only the function sees.

    Raises:
        StopError: it is no such list.
    """
    if not machine.own(state, value, "list"):
        raise StopError(f"The list at offset {here.offset} is visible outside the function.")
    assert isinstance(value, Fresh)
    return value


def _list_append(machine: Machine, state: PathState, here: Instruction) -> Next:
    value = state.pop()
    owner = _own_list(machine, state, state.stack[-(here.arg or 0)], here)
    state.heap[owner] = Contents((*state.heap[owner].items, value))
    return None


def _list_extend(machine: Machine, state: PathState, here: Instruction) -> Next:
    value = state.pop()
    owner = _own_list(machine, state, state.stack[-(here.arg or 0)], here)
    items = known_items(machine, state, value)
    if items is None and isinstance(value, Const) and value.type == "tuple":
        items = tuple(const(item) for item in items_of(value))
    if items is None:
        items = (UnpackedIterable(machine.value(state, here, "spread", (value,))),)
    state.heap[owner] = Contents(state.heap[owner].items + items)
    return None


def _list_to_tuple(machine: Machine, state: PathState, here: Instruction) -> Next:
    value = state.pop()
    owner = _own_list(machine, state, value, here)
    state.stack.append(tuple_of(machine, state, state.heap[owner].items))
    return None


def _intrinsic(machine: Machine, state: PathState, here: Instruction) -> Next:
    match here.arg:
        # INTRINSIC_UNARY_POSITIVE and INTRINSIC_LIST_TO_TUPLE (CPython 3.12 and 3.13, pycore_intrinsics.h).
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
    if machine.version >= (3, 13):
        flags = 0
    else:
        flags = here.arg or 0
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
    # From 3.13 on, each part is set alone; in one order, both codes have equal forms.
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


_FROZENSET = "frozenset"


def parsed(value: Const) -> ast.expr:
    """Return the expression that compiles to a constant; raise StopError if none exists."""
    text = "set()"
    if value.text != "frozenset()":
        text = value.text
    if value.type == _FROZENSET:
        text = text.removeprefix("frozenset(").removesuffix(")")
    try:
        ast.literal_eval(text)
        return ast.parse(text, mode="eval").body
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError) as error:
        msg = f"The constant {value.text:.60} cannot be written as source."
        raise StopError(msg) from error


def is_writable(value: Const) -> bool:
    """Return whether a constant can be written as source."""
    try:
        parsed(value)
    except StopError:
        return False
    return True


def evaluated(value: Const) -> Any:
    """Evaluate a constant that is a Python literal."""
    try:
        return ast.literal_eval(value.text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError) as error:
        msg = f"The constant {value.text:.60} is not a literal."
        raise StopError(msg) from error


def items_of(value: Any) -> tuple[Any, ...]:
    """Return the items of a constant tuple; raise StopError for anything else."""
    found = None
    if isinstance(value, Const):
        found = evaluated(value)
    if not isinstance(found, tuple):
        msg = "A constant tuple is expected, but the constant has another type."
        raise StopError(msg)
    return found


def const(value: Any) -> Const:
    """Return the constant for a Python literal's value."""
    return Const(type(value).__name__, constant_text(value))


def const_of(constant: Constant) -> Const:
    """Return the symbol for a constant of a code object."""
    return Const(constant.type, constant.text)


_TEMPORARY = "tmp_"


def _nothing(machine: Machine, state: PathState, here: Instruction) -> Next:
    return None


def _load_const(machine: Machine, state: PathState, here: Instruction) -> Next:
    number = here.arg or 0
    found = constant(machine, number)
    # The recompiled code has the names already, and code of a nested function is written as a `def`.
    named = machine.placeholders is None and not _makes_function(machine, here) and not is_writable(found)
    state.stack.append(Placeholder(placeholder(number)) if named else found)
    return None


def _makes_function(machine: Machine, here: Instruction) -> bool:
    after = machine.instruction_after(here)
    return after is not None and after.opname == "MAKE_FUNCTION"


def constant(machine: Machine, number: int) -> Const:
    """Return a constant of the code object by its number."""
    return const_of(machine.code.constants[number])


def placeholder(number: int) -> str:
    """Return the name that stands for a constant that cannot be written as source."""
    return f"constant_{number}"


def _load_fast(machine: Machine, state: PathState, here: Instruction) -> Next:
    for name in machine.touched(here):
        state.stack.append(_local(machine, state, here, name))
    return None


def _local(machine: Machine, state: PathState, here: Instruction, name: str) -> Value:
    # From 3.13 on, LOAD_FAST also loads the cell for a closure, as LOAD_CLOSURE did.
    if name in machine.shared:
        return Cell(name)
    if name in state.carried:
        raise StopError(f"The variable {name} carries a value from one loop iteration to the next.")
    if name not in state.locals:
        raise StopError(f"The variable {name} is read at offset {here.offset}, where it has no value.")
    return state.locals[name]


def _store(machine: Machine, state: PathState, name: str) -> None:
    value = state.pop()
    state.carried.discard(name)
    # A comprehension restores a variable that had no value before it (LOAD_FAST_AND_CLEAR).
    if isinstance(value, NullValue):
        state.locals.pop(name, None)
        return
    state.locals[name] = value
    known = machine.hints.get(value)
    if isinstance(value, EventResult | Fresh) and (known is None or known.startswith(_TEMPORARY)):
        machine.hints[value] = name


def _store_fast(machine: Machine, state: PathState, here: Instruction) -> Next:
    for name in machine.touched(here):
        _store(machine, state, name)
    return None


def _store_load(machine: Machine, state: PathState, here: Instruction) -> Next:
    stored, loaded = machine.touched(here)
    _store(machine, state, stored)
    state.stack.append(_local(machine, state, here, loaded))
    return None


def _load_and_clear(machine: Machine, state: PathState, here: Instruction) -> Next:
    (name,) = machine.touched(here)
    if name in state.carried:
        raise StopError(f"The variable {name} is shared between loop iterations.")
    state.stack.append(state.locals.pop(name, NULL))
    return None


def _delete_fast(machine: Machine, state: PathState, here: Instruction) -> Next:
    (name,) = machine.touched(here)
    if state.locals.pop(name, None) is None:
        raise StopError(f"The variable {name} is deleted at offset {here.offset}, where it has no value.")
    return None


def _make_cell(machine: Machine, state: PathState, here: Instruction) -> Next:
    name = machine.slots[here.arg or 0]
    if name in machine.shared:
        value = state.locals.pop(name, None)
        # CPython makes the cell before the first statement, so it can hold an argument only.
        if value is not None and value != Arg(name):
            raise StopError(f"The variable {name} becomes a closure variable after it was reassigned.")
    return None


def _load_closure(machine: Machine, state: PathState, here: Instruction) -> Next:
    state.stack.append(Cell(machine.slots[here.arg or 0]))
    return None


def _deref(machine: Machine, state: PathState, here: Instruction) -> Next:
    name = machine.slots[here.arg or 0]
    plain = name not in machine.shared
    match here.opname:
        case "LOAD_DEREF" if name in (machine.placeholders or ()):
            state.stack.append(Placeholder(name))
        case "LOAD_DEREF":
            if plain:
                read = _local(machine, state, here, name)
            else:
                read = machine.value(state, here, "load_deref", (), name)
            state.stack.append(read)
        case "STORE_DEREF" if plain:
            _store(machine, state, name)
        case "STORE_DEREF":
            machine.event(state, here, "store_deref", (state.pop(),), name, 0)
        case _ if plain:
            raise StopError(f"The cell variable {name} is deleted at offset {here.offset}.")
        case _:
            machine.event(state, here, "delete_deref", (), name, 0)
    return None


def _pop(machine: Machine, state: PathState, here: Instruction) -> Next:
    state.pop()
    return None


def _below(here: Instruction) -> int:
    """Return a position from the top of the stack; raise StopError if only a damaged log can contain it."""
    if here.arg is None or here.arg < 1:
        raise StopError(f"The instruction {here.opname} at offset {here.offset} refers to no stack position.")
    return -here.arg


def _copy(machine: Machine, state: PathState, here: Instruction) -> Next:
    state.stack.append(state.stack[_below(here)])
    return None


def _swap(machine: Machine, state: PathState, here: Instruction) -> Next:
    other = _below(here)
    state.stack[-1], state.stack[other] = state.stack[other], state.stack[-1]
    return None


def _push_null(machine: Machine, state: PathState, here: Instruction) -> Next:
    state.stack.append(NULL)
    return None


def _end_for(machine: Machine, state: PathState, here: Instruction) -> Next:
    # 3.12 pops the iterator and the value above it, 3.13 only the value.
    state.take(2 if machine.version == (3, 12) else 1)
    return None


def _return_value(machine: Machine, state: PathState, here: Instruction) -> Next:
    return machine.leave(state, here, "return", state.pop())


def _return_const(machine: Machine, state: PathState, here: Instruction) -> Next:
    return machine.leave(state, here, "return", constant(machine, here.arg or 0))


STACK_OPERATIONS: dict[str, Operation] = {
    **dict.fromkeys(("NOP", "RESUME", "CACHE", "PRECALL", "COPY_FREE_VARS"), _nothing),
    "LOAD_CONST": _load_const,
    "LOAD_FAST": _load_fast,
    "LOAD_FAST_CHECK": _load_fast,
    "LOAD_FAST_LOAD_FAST": _load_fast,
    "LOAD_FAST_AND_CLEAR": _load_and_clear,
    "STORE_FAST": _store_fast,
    "STORE_FAST_STORE_FAST": _store_fast,
    "STORE_FAST_LOAD_FAST": _store_load,
    "DELETE_FAST": _delete_fast,
    "MAKE_CELL": _make_cell,
    "LOAD_CLOSURE": _load_closure,
    "LOAD_DEREF": _deref,
    "STORE_DEREF": _deref,
    "DELETE_DEREF": _deref,
    "POP_TOP": _pop,
    "COPY": _copy,
    "SWAP": _swap,
    "PUSH_NULL": _push_null,
    "END_FOR": _end_for,
    "RETURN_VALUE": _return_value,
    "RETURN_CONST": _return_const,
}


VERSIONS = ("3.11", "3.12", "3.13")

OPERATIONS: dict[str, Operation] = {
    **STACK_OPERATIONS,
    **STEP_OPERATIONS,
    **ITEM_OPERATIONS,
    **BUILD_OPERATIONS,
    **CALL_OPERATIONS,
    **FLOW_OPERATIONS,
}


def traced(code: Code, placeholders: Placeholders = frozenset()) -> Traced:
    """Execute a code object symbolically; raise StopError with the reason if it does something unsupported."""
    if code.python not in VERSIONS:
        msg = f"Bytecode of Python {code.python} is not supported."
        raise StopError(msg)
    try:
        return Machine(code, OPERATIONS, placeholders).traced()
    except IndexError as error:
        msg = "The bytecode refers to a name, constant or variable that its tables do not contain."
        raise StopError(msg) from error
