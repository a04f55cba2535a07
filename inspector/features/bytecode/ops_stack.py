"""Instructions without effects outside the function: they move values between the stack and local variables.

Convert a code object's constants from their text in the log to values and to source.
"""

import ast
from typing import Any

from ctrace.inspector.facts.bytecode_facts import Constant, Instruction
from ctrace.inspector.features.bytecode.symbolic_machine import (
    NULL,
    Arg,
    Cell,
    Const,
    EventResult,
    Fresh,
    Machine,
    Next,
    NullValue,
    Operation,
    PathState,
    Placeholder,
    StopError,
    Value,
)
from ctrace.inspector.source.disassembly import constant_text

_FROZENSET = "frozenset"


def parsed(value: Const) -> ast.expr:
    """Return the expression that compiles to a constant; raise StopError if none exists."""
    text = "set()" if value.text == "frozenset()" else value.text
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
    found = evaluated(value) if isinstance(value, Const) else None
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
            read = _local(machine, state, here, name) if plain else machine.value(state, here, "load_deref", (), name)
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
    state.take(2 if machine.version == (3, 12) else 1)
    return None


def _return_value(machine: Machine, state: PathState, here: Instruction) -> Next:
    return machine.leave(state, here, "return", state.pop())


def _return_const(machine: Machine, state: PathState, here: Instruction) -> Next:
    return machine.leave(state, here, "return", constant(machine, here.arg or 0))


OPERATIONS: dict[str, Operation] = {
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
