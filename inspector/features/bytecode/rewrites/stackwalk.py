"""Track the stack through a function's code to find which instructions produced each operand.

The code is not executed: a value is described by how it was produced (`stackforms.py`). A path ends where the stack
cannot be tracked. The items of lists are tracked, too, because torch passes values to resume functions in lists.
"""

from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.facts.bytecode_facts import Code, Instruction
from ctrace.inspector.features.bytecode.rewrites.opcodes import effect, goes_on, index_at, version
from ctrace.inspector.features.bytecode.rewrites.stackforms import (
    BuiltContainer,
    ConstantForm,
    Form,
    ItemForm,
    ListOf,
    Lists,
    UnknownForm,
    Value,
)
from ctrace.inspector.features.bytecode.rewrites.stackmoves import Done, Move
from ctrace.inspector.features.bytecode.rewrites.stackstate import StackState, called


def build_list(move: Move) -> Done:
    """Push a list and track its items."""
    return _list(move, move.taken, move.taken)


def _list(move: Move, items: tuple[Value, ...], parts: tuple[Value, ...]) -> Done:
    number = len(move.state.lists)
    after = _changed(move, number, items)
    return (move.value(ListOf(number), *parts),), after


def _changed(move: Move, number: int, items: tuple[Value, ...]) -> StackState:
    return replace(move.state, lists={**move.state.lists, number: items})


def extend(move: Move) -> Done:
    """Append or extend a list deeper on the stack."""
    at = move.instruction.arg or 1
    target = move.state.stack[-at].form if at <= len(move.state.stack) else UnknownForm()
    added = move.taken[0]
    lists = move.state.lists
    if isinstance(target, ListOf) and move.instruction.opname == "LIST_APPEND":
        return (), _changed(move, target.number, (*lists[target.number], added))
    if isinstance(target, ListOf) and isinstance(added.form, ListOf):
        return (), _changed(move, target.number, (*lists[target.number], *lists[added.form.number]))
    return (), move.state


def item(move: Move) -> Done:
    """Push an item; for a tracked list, the item's value."""
    of, key = move.taken
    return _item(move, of, key, move.taken)


def sliced(move: Move) -> Done:
    """Push a slice of a sequence."""
    of, low, high = move.taken
    key = move.value(BuiltContainer("slice", (low, high)), low, high)
    return _item(move, of, key, (of, key))


def _item(move: Move, of: Value, key: Value, parts: tuple[Value, ...]) -> Done:
    within = _within(move, of.form, key.form)
    if within is None or not isinstance(of.form, ListOf):
        return move.putting(move.value(ItemForm(of.form, key.form), *parts))
    items = move.state.lists[of.form.number][within]
    if isinstance(items, tuple):
        return _list(move, items, parts)
    return move.putting(move.copied(items, *parts))


def _within(move: Move, of: Form, key: Form) -> int | slice | None:
    """Return the index or slice within a tracked list, or None if the list or the key is unknown."""
    if not isinstance(of, ListOf):
        return None
    length = len(move.state.lists.get(of.number, ()))
    if isinstance(key, ConstantForm) and key.number is not None and -length <= key.number < length:
        return key.number
    ends = [end.form for end in key.items] if isinstance(key, BuiltContainer) and key.kind == "slice" else []
    if len(ends) == 2 and all(isinstance(end, ConstantForm) for end in ends):
        return slice(*(end.number for end in ends if isinstance(end, ConstantForm)))
    return None


def store_item(move: Move) -> Done:
    """Set an item or a slice of a list."""
    value, of, key = move.taken
    return _assign(move, value, of, key.form)


def store_slice(move: Move) -> Done:
    """Set a slice of a list."""
    value, of, low, high = move.taken
    return _assign(move, value, of, BuiltContainer("slice", (low, high)))


def _assign(move: Move, value: Value, of: Value, key: Form) -> Done:
    within = _within(move, of.form, key)
    if not isinstance(of.form, ListOf) or within is None:
        return (), move.state
    items = list(move.state.lists[of.form.number])
    if isinstance(within, int):
        items[within] = value
    elif isinstance(value.form, ListOf):
        items[within] = move.state.lists[value.form.number]
    return (), _changed(move, of.form.number, tuple(items))


def delete_item(move: Move) -> Done:
    """Delete an item of a list."""
    of, key = move.taken
    within = _within(move, of.form, key.form)
    if not isinstance(of.form, ListOf) or within is None:
        return (), move.state
    items = list(move.state.lists[of.form.number])
    del items[within]
    return (), _changed(move, of.form.number, tuple(items))


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
    "BUILD_LIST": build_list,
    "LIST_EXTEND": extend,
    "LIST_APPEND": extend,
    "BINARY_SUBSCR": item,
    "BINARY_SLICE": sliced,
    "STORE_SUBSCR": store_item,
    "STORE_SLICE": store_slice,
    "DELETE_SUBSCR": delete_item,
    "UNPACK_SEQUENCE": Move.unpack,
    "KW_NAMES": Move.name_keywords,
    "CALL": Move.call,
    "CALL_KW": Move.call,
    "CALL_FUNCTION_EX": Move.call,
}
"""How to track each opcode; other opcodes use `Move.anything`."""


_CALLS = frozenset(("CALL", "CALL_KW", "CALL_FUNCTION_EX"))


class WalkStep(Struct, frozen=True):
    """One instruction with the values that it pops and pushes, lowest on the stack first."""

    index: int
    instruction: Instruction
    taken: tuple[Value, ...]
    put: tuple[Value, ...]
    lists: Lists
    """The tracked lists after the instruction."""


def walked(code: Code) -> dict[int, WalkStep]:
    """Walk every path through the code, visiting each instruction once. Return the steps, keyed by index."""
    steps: dict[int, WalkStep] = {}
    ahead: list[tuple[int, StackState]] = [(0, StackState())]
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


def _elsewhere(code: Code, index: int, before: StackState, after: StackState) -> Iterator[tuple[int, StackState]]:
    """Yield where execution may continue other than at the next instruction: a jump target or an exception handler."""
    instruction = code.instructions[index]
    if instruction.target is not None:
        yield index_at(code, instruction.target), _jumping(code, instruction, before, after)
    for handler in code.handlers:
        if handler.start <= instruction.offset < handler.end:
            raised = (Value(-1, UnknownForm("exception")),) * (2 if handler.lasti else 1)
            yield (
                index_at(code, handler.target),
                replace(before, stack=(*before.stack[: handler.depth], *raised), keywords=()),
            )


def _jumping(code: Code, instruction: Instruction, before: StackState, after: StackState) -> StackState:
    there = effect(instruction, version(code), jumps=True)
    if there is None or there == effect(instruction, version(code)):
        return after
    taken, put = there
    kept = before.stack[: len(before.stack) - taken]
    top = before.stack[-1:] if taken == put else ()
    fresh = (Value(-1, UnknownForm(instruction.opname)),) * (put - len(top))
    return replace(after, stack=(*kept, *top, *fresh))


def _walk_one(code: Code, index: int, state: StackState) -> tuple[WalkStep, StackState] | None:
    instruction = code.instructions[index]
    known = effect(instruction, version(code))
    if known is None or known[0] > len(state.stack):
        return None
    cut = len(state.stack) - known[0]
    kept, taken = state.stack[:cut], state.stack[cut:]
    move = Move(code, index, instruction, taken, known[1], replace(state, stack=kept))
    act = ACTS.get(instruction.opname, Move.anything)
    put, after = act(move)
    return WalkStep(index, instruction, taken, put, after.lists), replace(after, stack=(*after.stack, *put))


def called_by(step: WalkStep) -> tuple[Value, tuple[Value, ...]] | None:
    """Return the function and the arguments of a call, or None for any other instruction."""
    return called(step.taken) if step.instruction.opname in _CALLS and len(step.taken) > 1 else None
