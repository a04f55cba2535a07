"""Track the stack through a function's code to find which instructions produced each operand.

The code is not executed: a value is described by how it was produced (`stackforms.py`). A path ends where the stack
cannot be tracked.
"""

from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.facts.bytecode import Code, Instruction
from ctrace.inspector.features.bytecode.rewrites import stacklists
from ctrace.inspector.features.bytecode.rewrites.opcodes import effect, goes_on, index_at, version
from ctrace.inspector.features.bytecode.rewrites.stackforms import Lists, Unknown, Value
from ctrace.inspector.features.bytecode.rewrites.stackmoves import Done, Move
from ctrace.inspector.features.bytecode.rewrites.stackstate import State, called

ACTS: dict[str, Callable[[Move], Done]] = {
    "SWAP": Move.swap,
    "COPY": Move.copy,
    "TO_BOOL": Move.ask,
    "LOAD_CONST": Move.constant,
    "MAKE_FUNCTION": Move.make_function,
    "SET_FUNCTION_ATTRIBUTE": Move.set_function,
    "PUSH_NULL": Move.null,
    "LOAD_FAST": Move.load_local,
    "LOAD_FAST_CHECK": Move.load_local,
    "LOAD_FAST_LOAD_FAST": Move.load_local,
    "STORE_FAST": Move.store_local,
    "STORE_FAST_STORE_FAST": Move.store_local,
    "STORE_FAST_LOAD_FAST": Move.store_and_load,
    "LOAD_CLOSURE": Move.load_closure,
    "LOAD_DEREF": Move.load_closure,
    "LOAD_GLOBAL": Move.load_global,
    "LOAD_ATTR": Move.load_attribute,
    "LOAD_METHOD": Move.load_attribute,
    "BUILD_TUPLE": Move.build,
    "BUILD_SET": Move.build,
    "BUILD_MAP": Move.build,
    "BUILD_SLICE": Move.build,
    "BUILD_LIST": stacklists.build_list,
    "LIST_EXTEND": stacklists.extend,
    "LIST_APPEND": stacklists.extend,
    "BINARY_SUBSCR": stacklists.item,
    "BINARY_SLICE": stacklists.sliced,
    "STORE_SUBSCR": stacklists.store_item,
    "STORE_SLICE": stacklists.store_slice,
    "DELETE_SUBSCR": stacklists.delete_item,
    "UNPACK_SEQUENCE": Move.unpack,
    "KW_NAMES": Move.name_keywords,
    "CALL": Move.call,
    "CALL_KW": Move.call,
    "CALL_FUNCTION_EX": Move.call,
}
"""How to track each opcode; other opcodes use `Move.anything`."""


_CALLS = frozenset(("CALL", "CALL_KW", "CALL_FUNCTION_EX"))


class Step(Struct, frozen=True):
    """One instruction with the values that it pops and pushes, lowest on the stack first."""

    index: int
    instruction: Instruction
    taken: tuple[Value, ...]
    put: tuple[Value, ...]
    lists: Lists
    """The tracked lists after the instruction."""


def walked(code: Code) -> dict[int, Step]:
    """Walk every path through the code, visiting each instruction once. Return the steps, keyed by index."""
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
    """Yield where execution may continue other than at the next instruction: a jump target or an exception handler."""
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
    top = before.stack[-1:] if taken == put else ()
    fresh = (Value(-1, Unknown(instruction.opname)),) * (put - len(top))
    return replace(after, stack=(*kept, *top, *fresh))


def _walk_one(code: Code, index: int, state: State) -> tuple[Step, State] | None:
    instruction = code.instructions[index]
    known = effect(instruction, version(code))
    if known is None or known[0] > len(state.stack):
        return None
    cut = len(state.stack) - known[0]
    kept, taken = state.stack[:cut], state.stack[cut:]
    move = Move(code, index, instruction, taken, known[1], replace(state, stack=kept))
    act = ACTS.get(instruction.opname, Move.anything)
    put, after = act(move)
    return Step(index, instruction, taken, put, after.lists), replace(after, stack=(*after.stack, *put))


def called_by(step: Step) -> tuple[Value, tuple[Value, ...]] | None:
    """Return the function and the arguments of a call, or None for any other instruction."""
    return called(step.taken) if step.instruction.opname in _CALLS and len(step.taken) > 1 else None
