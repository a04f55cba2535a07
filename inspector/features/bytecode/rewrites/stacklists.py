"""Track the items of lists through instructions, because torch passes values to resume functions in lists."""

from msgspec.structs import replace

from ctrace.inspector.features.bytecode.rewrites.stackforms import Built, Constant, Form, Item, ListOf, Unknown, Value
from ctrace.inspector.features.bytecode.rewrites.stackmoves import Done, Move
from ctrace.inspector.features.bytecode.rewrites.stackstate import State


def build_list(move: Move) -> Done:
    """Push a list and track its items."""
    return _list(move, move.taken, move.taken)


def _list(move: Move, items: tuple[Value, ...], parts: tuple[Value, ...]) -> Done:
    number = len(move.state.lists)
    after = _changed(move, number, items)
    return (move.value(ListOf(number), *parts),), after


def _changed(move: Move, number: int, items: tuple[Value, ...]) -> State:
    return replace(move.state, lists={**move.state.lists, number: items})


def extend(move: Move) -> Done:
    """Append or extend a list deeper on the stack."""
    at = move.instruction.arg or 1
    target = move.state.stack[-at].form if at <= len(move.state.stack) else Unknown()
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
    key = move.value(Built("slice", (low, high)), low, high)
    return _item(move, of, key, (of, key))


def _item(move: Move, of: Value, key: Value, parts: tuple[Value, ...]) -> Done:
    within = _within(move, of.form, key.form)
    if within is None or not isinstance(of.form, ListOf):
        return move.putting(move.value(Item(of.form, key.form), *parts))
    items = move.state.lists[of.form.number][within]
    if isinstance(items, tuple):
        return _list(move, items, parts)
    return move.putting(move.copied(items, *parts))


def _within(move: Move, of: Form, key: Form) -> int | slice | None:
    """Return the index or slice within a tracked list, or None if the list or the key is unknown."""
    if not isinstance(of, ListOf):
        return None
    length = len(move.state.lists.get(of.number, ()))
    if isinstance(key, Constant) and key.number is not None and -length <= key.number < length:
        return key.number
    ends = [end.form for end in key.items] if isinstance(key, Built) and key.kind == "slice" else []
    if len(ends) == 2 and all(isinstance(end, Constant) for end in ends):
        return slice(*(end.number for end in ends if isinstance(end, Constant)))
    return None


def store_item(move: Move) -> Done:
    """Set an item or a slice of a list."""
    value, of, key = move.taken
    return _assign(move, value, of, key.form)


def store_slice(move: Move) -> Done:
    """Set a slice of a list."""
    value, of, low, high = move.taken
    return _assign(move, value, of, Built("slice", (low, high)))


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
