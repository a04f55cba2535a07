"""Describe what an instruction that replays a side effect writes, as a statement.

The shapes are those of `codegen_update_mutated` (torch 2.11 and 2.13, _dynamo/side_effects.py:1303).
"""

from ctrace.inspector.features.bytecode.rewrites.stackforms import (
    Attribute,
    Built,
    Constant,
    Form,
    ListOf,
    Name,
    Value,
    written,
    written_owner,
)
from ctrace.inspector.features.bytecode.rewrites.stackstate import called
from ctrace.inspector.features.bytecode.rewrites.stackwalk import Step

_SETTERS = ("object_setattr_ignore_descriptor", "__setattr__")
_DELETER = "object_delattr_ignore_descriptor"
_METHODS = frozenset(("update", "clear", "extend", "setstate", "set_torch_function_mode_stack", "iter_next"))
_TABLES = frozenset(("_parameters", "_buffers", "_modules", "__dict__"))


def change_by(step: Step) -> str:
    """Return what a store or delete writes, or "" if it writes nothing of the user's."""
    lists, taken = step.lists, [value.form for value in step.taken]
    name = step.instruction.text
    match step.instruction.opname:
        case "STORE_ATTR":
            return f"{written_owner(taken[1], lists)}.{name} = {written(taken[0], lists)}"
        case "DELETE_ATTR":
            return f"del {written_owner(taken[0], lists)}.{name}"
        case "STORE_GLOBAL":
            return f"global {name} = {written(taken[0], lists)}"
        case "STORE_DEREF":
            return f"{name} = {written(taken[0], lists)}, in its cell"
        case "STORE_SUBSCR" if not isinstance(taken[1], ListOf):
            return f"{_place(taken[1], taken[2], step)} = {written(taken[0], lists)}"
        case "DELETE_SUBSCR" if not isinstance(taken[0], ListOf):
            return f"del {_place(taken[0], taken[1], step)}"
    return ""


def is_unchanged(step: Step) -> bool:
    """Whether a cell is set to its current content."""
    return step.instruction.opname == "STORE_DEREF" and step.taken[0].form == Name("closure", step.instruction.text)


def change_by_call(step: Step) -> str:
    """Return what a call with an unused result writes, or "" if it is not a known side effect."""
    function, arguments = called(step.taken)
    if not isinstance(function.form, Attribute):
        return ""
    method = function.form
    texts = [written(each.form, step.lists) for each in arguments]
    owner = written_owner(arguments[0].form, step.lists) if arguments else ""
    if method.name in _SETTERS and len(arguments) == 3:
        return f"{owner}.{_bare(arguments[1])} = {texts[2]}"
    if method.name == _DELETER and len(arguments) == 2:
        return f"del {owner}.{_bare(arguments[1])}"
    if method.name not in _METHODS:
        return ""
    return _of_a_table(method, arguments, step) or f"{written(method, step.lists)}({', '.join(texts)})"


def _of_a_table(method: Attribute, arguments: tuple[Value, ...], step: Step) -> str:
    """Return the module attributes that a call such as `self._buffers.update({'cnt': ...})` sets."""
    table = method.of
    argument = arguments[0].form if len(arguments) == 1 else None
    is_table = isinstance(table, Attribute) and table.name in _TABLES
    if method.name != "update" or not is_table or not isinstance(argument, Built) or argument.kind != "map":
        return ""
    owner = written(table.of, step.lists) if isinstance(table, Attribute) else ""
    pairs = zip(argument.items[::2], argument.items[1::2], strict=False)
    statements = ", ".join(f"{owner}.{_bare(key)} = {written(value.form, step.lists)}" for key, value in pairs)
    return f"{statements}, by {owner}.{table.name}.update" if isinstance(table, Attribute) else statements


def _bare(value: Value) -> str:
    return value.form.text.strip("'\"") if isinstance(value.form, Constant) else "…"


def _place(of: Form, key: Form, step: Step) -> str:
    return f"{written_owner(of, step.lists)}[{written(key, step.lists)}]"
