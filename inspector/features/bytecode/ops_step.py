"""Instructions that may run user code, or that read or write shared state.

Call instructions of Python 3.11, 3.12 and 3.13; all become the step `call` or `call_ex`.

Instructions that jump, raise or handle exceptions.
"""

from ctrace.inspector.facts.bytecode_facts import Instruction
from ctrace.inspector.features.bytecode.ops_stack import const, constant, evaluated, items_of
from ctrace.inspector.features.bytecode.symbolic_machine import (
    END,
    NONE,
    NULL,
    Cell,
    Const,
    EventResult,
    Fresh,
    Is,
    Machine,
    Next,
    Not,
    Operation,
    Pair,
    PathState,
    SavedException,
    StopError,
    UnpackedIterable,
    Value,
)

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
    number = here.arg or 0
    flagged = machine.version >= (3, 12)
    name = machine.code.names[number >> 1 if flagged else number]
    value = _attribute(machine, state, here, state.pop(), name)
    _push_callable(machine, state, value, flagged and bool(number & 1))
    return None


def _load_method(machine: Machine, state: PathState, here: Instruction) -> Next:
    value = _attribute(machine, state, here, state.pop(), machine.code.names[here.arg or 0])
    _push_callable(machine, state, value, True)
    return None


def _attribute(machine: Machine, state: PathState, here: Instruction, owner: Value, name: str) -> Value:
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
    op = "binary" if number < len(_BINARY) else "inplace"
    state.stack.append(machine.value(state, here, op, (left, right), _BINARY[number % len(_BINARY)]))
    return None


def _compare(machine: Machine, state: PathState, here: Instruction) -> Next:
    left, right = state.take(2)
    number = here.arg or 0
    shift = {11: 0, 12: 4}.get(machine.version[1], 5)
    answer: Value = machine.value(state, here, "compare", (left, right), _COMPARED[number >> shift])
    if shift == 5 and number & _AS_TRUTH:
        answer = machine.truth(state, here, answer)
    state.stack.append(answer)
    return None


def _is(machine: Machine, state: PathState, here: Instruction) -> Next:
    left, right = state.take(2)
    answer = same(left, right)
    state.stack.append(negated(answer) if here.arg else answer)
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
    machine.bools.add(answer.event)
    state.stack.append(negated(answer) if here.arg else answer)
    return None


def _get_iter(machine: Machine, state: PathState, here: Instruction) -> Next:
    state.stack.append(machine.value(state, here, "iter", (state.pop(),)))
    return None


def _format(machine: Machine, state: PathState, here: Instruction) -> Next:
    number = here.arg or 0
    spec = (state.pop(),) if number & 4 else ()
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
    if machine.version >= (3, 13):
        function, extra = first, [] if second == NULL else [second]
    elif first == NULL:
        function, extra = second, []
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
    if any(each == NULL for each in (function, *arguments)):
        raise StopError(f"The call at offset {here.offset} has NULL as its function or as an argument.")
    if len(keywords) > len(arguments):
        raise StopError(f"The call at offset {here.offset} has more keywords than arguments.")
    state.stack.append(machine.value(state, here, "call", (function, *arguments), keywords))


def _call_unpacked(machine: Machine, state: PathState, here: Instruction) -> Next:
    mapping = state.pop() if (here.arg or 0) & 1 else None
    arguments = state.pop()
    first, second = state.take(2)
    function, empty = (first, second) if machine.version >= (3, 13) else (second, first)
    if empty != NULL:
        raise StopError(f"The call at offset {here.offset} has no NULL beside its function.")
    positional = _positional(machine, state, arguments)
    named = _named(machine, state, mapping)
    if positional is None or named is None:
        operands = (function, arguments) if mapping is None else (function, arguments, mapping)
        state.stack.append(machine.value(state, here, "call_ex", operands))
        return None
    pairs, keywords = named
    _pushed(machine, state, here, function, (*positional, *pairs), keywords)
    return None


def _positional(machine: Machine, state: PathState, arguments: Value) -> tuple[Value, ...] | None:
    """Return the items of a tuple or list that this function built for the call, or None for another iterable."""
    if isinstance(arguments, Const) and arguments.type == "tuple":
        return tuple(const(item) for item in items_of(arguments))
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
        if pair.key.type != "str" or evaluated(pair.key) in names:
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
    if not state.loops or state.loops[-1].head != target:
        raise StopError(f"The jump at offset {here.offset} forms a loop that is not a `for` loop.")
    if state.loops[-1].stack != state.stack:
        raise StopError(f"The loop that ends at offset {here.offset} keeps values on the stack.")
    return machine.leave(state, here, "continue", NONE)


def _split(machine: Machine, state: PathState, here: Instruction, test: Value, when: bool) -> Next:
    """Follow both branches of a jump that is taken if the test equals `when`."""
    if _target(here) <= here.offset:
        raise StopError(f"The jump at offset {here.offset} forms a loop that is not a `for` loop.")
    ways = (_target(here), machine.after(here)) if when else (machine.after(here), _target(here))
    return machine.branch(state, here, test, state.copy(), state.copy(), ways)


def _jump_if(machine: Machine, state: PathState, here: Instruction) -> Next:
    value, when = state.pop(), here.opname.endswith("TRUE")
    if isinstance(value, Const):
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
    else:
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
    if not here.arg:
        if state.handled is None:
            raise StopError(f"The `raise` at offset {here.offset} reraises an exception that a caller is handling.")
        return machine.raised(state, here, state.handled)
    made = machine.event(state, here, "raise", tuple(state.take(here.arg)), None, 0)
    if made.failure is None:
        return machine.leave(state, here, "raised", NONE)
    return END


def _match(machine: Machine, state: PathState, here: Instruction) -> Next:
    kind = state.pop()
    answer = machine.value(state, here, "match", (state.stack[-1], kind))
    machine.bools.add(answer.event)
    state.stack.append(answer)
    return None


def _before_with(machine: Machine, state: PathState, here: Instruction) -> Next:
    made = machine.event(state, here, "enter", (state.pop(),), None, 2)
    state.stack.extend((EventResult(made.number, 1), EventResult(made.number, 0)))
    return None


def _with_failed(machine: Machine, state: PathState, here: Instruction) -> Next:
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
