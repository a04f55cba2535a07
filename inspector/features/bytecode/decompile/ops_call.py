"""Call instructions of Python 3.11, 3.12 and 3.13; all become the step `call` or `call_ex`."""

from ctrace.inspector.facts.bytecode_facts import Instruction
from ctrace.inspector.features.bytecode.decompile.constant_literals import const, evaluated, items_of
from ctrace.inspector.features.bytecode.decompile.ops_stack import constant
from ctrace.inspector.features.bytecode.decompile.symbolic_machine import Machine, Next, Operation
from ctrace.inspector.features.bytecode.decompile.symbolic_values import (
    NULL,
    Const,
    Fresh,
    Pair,
    PathState,
    StopError,
    UnpackedIterable,
    Value,
)


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


OPERATIONS: dict[str, Operation] = {
    "KW_NAMES": _keywords,
    "CALL": _call,
    "CALL_KW": _call_keywords,
    "CALL_FUNCTION_EX": _call_unpacked,
}
