"""The tracked state before an instruction, and the layout of calls on the stack."""

from msgspec import Struct, field

from ctrace.inspector.features.bytecode.rewrites.stackforms import (
    BuiltContainer,
    ConstantForm,
    Form,
    Lists,
    NullForm,
    Value,
)


class StackState(Struct, frozen=True):
    """The stack, variables and lists before an instruction runs."""

    stack: tuple[Value, ...] = ()
    variables: dict[str, Value] = field(default_factory=dict)
    """The values that this code stored in local variables."""
    lists: Lists = field(default_factory=dict)
    keywords: tuple[str, ...] = ()


def called(taken: tuple[Value, ...]) -> tuple[Value, tuple[Value, ...]]:
    """Split a call's operands into function and arguments; a NULL is below or above the function."""
    if isinstance(taken[0].form, NullForm):
        return taken[1], taken[2:]
    return taken[0], taken[2:] if isinstance(taken[1].form, NullForm) else taken[1:]


def words(text: str) -> tuple[str, ...]:
    """Parse the repr of a tuple of names."""
    parts = (part.strip(" '\"") for part in text.strip("()").split(","))
    return tuple(part for part in parts if part)


def text_of(value: Value) -> str:
    """Return the repr of a constant, or "" for any other value."""
    return value.form.text if isinstance(value.form, ConstantForm) else ""


def unpacked(arguments: tuple[Value, ...], index: int) -> tuple[tuple[Value, ...], tuple[str, ...]]:
    """Return the arguments of `f(*a, **b)` and the keyword names.

    `a` and `b` are unpacked if this code built them; otherwise, each stays one `spread` value, produced by the call at
    `index`.
    """
    positional, *maps = arguments
    items = _items(positional.form, "tuple")
    first = (Value(index, BuiltContainer("spread", (positional,)), (positional,)),) if items is None else items
    if not maps:
        return first, ()
    pairs = _items(maps[0].form, "map")
    if pairs is None or not all(isinstance(key.form, ConstantForm) for key in pairs[::2]):
        return (*first, Value(index, BuiltContainer("spread_map", (maps[0],)), (maps[0],))), ()
    return (*first, *pairs[1::2]), tuple(text_of(key).strip("'\"") for key in pairs[::2])


def _items(form: Form, kind: str) -> tuple[Value, ...] | None:
    return form.items if isinstance(form, BuiltContainer) and form.kind == kind else None
