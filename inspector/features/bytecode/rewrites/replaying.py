"""Explain the templates that replay changes to a user's subclass of dict or list.

Source: `_manual_dict_setitem` and `_manual_list_update` (torch 2.11 and 2.13, _dynamo/side_effects.py): torch calls the
built-in methods on the object, not those of its class. It inserts the templates' compiled code, so each is a run of
instructions; the last one drops the None that the template returns.
"""

from ctrace.inspector.features.bytecode.rewrites.pieces import PieceKind, Role
from ctrace.inspector.features.bytecode.rewrites.scene import Scene
from ctrace.inspector.features.bytecode.rewrites.stackforms import (
    Attribute,
    Call,
    Form,
    Item,
    Lists,
    Name,
    Value,
    written,
    written_owner,
)
from ctrace.inspector.features.bytecode.rewrites.stackwalk import Step, called_by

_LIST = Name("global", "list")


def claim_replays(scene: Scene) -> None:
    """Claim each template and the producers of its operands."""
    for step, function, arguments in list(scene.free_calls()):
        form = function.form
        if not isinstance(form, Attribute) or form.name != "clear" or len(arguments) != 1:
            continue
        begin = _begin(scene, function) if _is_own_class(form.of) or form.of == _LIST else None
        end = _end(scene, step)
        if begin is not None and end is not None:
            _claim(scene, range(begin, end + 1), arguments[0].form)


def _is_own_class(form: Form) -> bool:
    """Whether a value is `type(x).__mro__[n]`, which torch uses to find the built-in class."""
    match form:
        case Item(Attribute(Call(Name("global", "type")), "__mro__")):
            return True
    return False


def _begin(scene: Scene, function: Value) -> int | None:
    """Return the first instruction of a template, which computes the class."""
    made = function.parts[0].made
    variable = scene.after.instructions[made].text
    if variable not in scene.torchs:
        return made
    kept = scene.keeper(variable, made)
    return None if kept is None else _first(kept.taken[0])


def _first(value: Value) -> int:
    return min([value.made, *map(_first, value.parts)])


def _end(scene: Scene, step: Step) -> int | None:
    """Return the last instruction of a template, which drops a None."""
    for at, each in sorted(scene.steps.items()):
        drops = at > step.index and each.instruction.opname == "POP_TOP"
        if drops and scene.after.instructions[each.taken[0].made].opname == "LOAD_CONST":
            return at
    return None


def _claim(scene: Scene, template: range, target: Form) -> None:
    steps = [scene.steps[at] for at in template if at in scene.steps]
    lists = steps[-1].lists
    text = next((text for step in steps if (text := _template_text(step, target, lists))), "")
    if not text:
        return
    role = Role(PieceKind.CHANGE, f"replays {text}", early=f"to replay: {text}")
    for at in template:
        scene.claims.claim(at, role)
    for variable in sorted({step.instruction.text for step in steps if step.instruction.text in scene.torchs}):
        kept = scene.keeper(variable, template.start)
        if kept is not None and set(scene.loads(variable)) <= set(template):
            scene.whole(kept, role)


def _template_text(step: Step, target: Form, lists: Lists) -> str:
    """Return what a template writes if `step` is the one that takes the new items, and "" for any other step."""
    to = written_owner(target, lists)
    call = called_by(step)
    if call is not None and call[0].form == Attribute(_LIST, "extend"):
        return f"{to}[:] = {written(call[1][-1].form, lists)}, by list's methods"
    if step.instruction.opname != "GET_ITER":
        return ""
    match step.taken[0].form:
        case Call(Attribute(Call(_, (mapping,), ()), "items")):
            return _updated(to, written(mapping.form, lists))
        case Call(Attribute(mapping, "items")):
            return _updated(to, written(mapping, lists))
    return ""


def _updated(to: str, items: str) -> str:
    return f"{to}.clear(), then {to}.update({items}), by dict's methods"
