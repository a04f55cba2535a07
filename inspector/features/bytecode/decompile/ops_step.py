"""Instructions that may run user code, or that read or write shared state."""

from ctrace.inspector.facts.bytecode_facts import Instruction
from ctrace.inspector.features.bytecode.decompile.symbolic_machine import Machine, Next, Operation
from ctrace.inspector.features.bytecode.decompile.symbolic_values import (
    NULL,
    Cell,
    Const,
    Fresh,
    Is,
    Not,
    PathState,
    StopError,
    Value,
)

_BINARY = ("+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^")
_COMPARED = ("<", "<=", "==", "!=", ">", ">=")
_SINGLE = ("NoneType", "bool", "ellipsis")
_AS_TRUTH = 16
"""The bit of COMPARE_OP, from 3.13 on, that converts the result to a bool."""


def negated(value: Value) -> Value:
    """Return the negation of a truth value."""
    return value.value if isinstance(value, Not) else Not(value)


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


OPERATIONS: dict[str, Operation] = {
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
