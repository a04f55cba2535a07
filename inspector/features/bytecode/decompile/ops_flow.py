"""Instructions that jump, raise or handle exceptions."""

from ctrace.inspector.facts.bytecode_facts import Instruction
from ctrace.inspector.features.bytecode.decompile.constant_literals import evaluated
from ctrace.inspector.features.bytecode.decompile.ops_step import same
from ctrace.inspector.features.bytecode.decompile.symbolic_machine import END, Machine, Next, Operation
from ctrace.inspector.features.bytecode.decompile.symbolic_values import (
    NONE,
    NULL,
    Const,
    EventResult,
    PathState,
    SavedException,
    StopError,
    Value,
)


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
        return _target(here) if bool(evaluated(value)) == when else None
    return _split(machine, state, here, machine.truth(state, here, value), when)


def _jump_if_none(machine: Machine, state: PathState, here: Instruction) -> Next:
    value, when = state.pop(), not here.opname.endswith("NOT_NONE")
    if isinstance(value, Const):
        return _target(here) if (value == NONE) == when else None
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

OPERATIONS: dict[str, Operation] = {
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
