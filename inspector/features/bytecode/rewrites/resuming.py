"""Explain the calls of resume functions: their arguments, how torch packs them, and where they continue.

Source: `create_call_resume_at` and `codegen_call_resume` (torch 2.11 and 2.13, _dynamo/symbolic_convert.py).
"""

from collections.abc import Iterator

from ctrace.inspector.facts.bytecode import Code
from ctrace.inspector.features.bytecode.rewrites.pieces import PieceKind, Role
from ctrace.inspector.features.bytecode.rewrites.resumes import BOXED, Resume, called_resume, resume_of
from ctrace.inspector.features.bytecode.rewrites.scene import Scene
from ctrace.inspector.features.bytecode.rewrites.stackforms import ListOf, Name, Value, output_number, root_of, written
from ctrace.inspector.features.bytecode.rewrites.stackwalk import Step
from ctrace.inspector.source.stacks import resumed

_LIST_WORK = frozenset(("STORE_SUBSCR", "STORE_SLICE", "DELETE_SUBSCR", "LIST_EXTEND", "LIST_APPEND", "POP_TOP"))


def _resumes(scene: Scene) -> Iterator[tuple[Step, str | Code, Value]]:
    """Yield the calls of resume functions with their arguments."""
    for step, function, arguments in scene.free_calls():
        name = called_resume(function.form)
        if name is not None and step.instruction.opname == "CALL_FUNCTION_EX" and arguments:
            yield step, name, arguments[0]


def claim_values(scene: Scene) -> None:
    """Claim the producers of each value for a resume function."""
    for step, name, values in _resumes(scene):
        resume = resume_of(name, scene.before, scene.codes)
        # The first two are torch's lists.
        items = step.lists.get(values.form.number, ())[2:] if isinstance(values.form, ListOf) else ()
        names = resume.arguments if len(resume.arguments) == len(items) else ("",) * len(items)
        for item, name_ in zip(items, names, strict=True):
            _pass(scene, item.root, "" if name_.startswith("___stack") else name_, step)


def _pass(scene: Scene, value: Value, name: str, step: Step) -> None:
    text = written(value.form, step.lists)
    text = f"{name} = {text}" if name not in ("", text) else text
    kind = PieceKind.PASS if output_number(value.form) is None else PieceKind.OUTPUT
    if isinstance(value.form, ListOf) and not name:
        return
    scene.claims.tree(value, Role(kind, f"for the resume function: {text}"))


def claim_calls(scene: Scene) -> None:
    """Claim the calls of resume functions and the packing of their values."""
    for step, name, values in list(_resumes(scene)):
        role = _resume_role(scene, resume_of(name, scene.before, scene.codes))
        scene.claims.claim(step.index, role)
        for each in step.taken:
            scene.claims.tree(each, scene.frame if each is values else role)
        taker = scene.taker(step)
        if taker is not None and taker.instruction.opname == "RETURN_VALUE":
            scene.claims.claim(taker.index, role)


def _resume_role(scene: Scene, resume: Resume) -> Role:
    line = f" at line {resume.line}" if resume.line is not None else ""
    ids = ", ".join(resume.ids)
    how = f"compiled as {ids}" if ids else "which this run did not compile: never reached, or runs eagerly"
    text = f"goes on in {resumed(scene.before.name)[0]}{line}, in a resume function, {how}; returns what it returns"
    return Role(PieceKind.RESUME, text, resume.ids, f"loads the resume function{f' {ids}' if ids else ''}")


def claim_boxed(scene: Scene) -> None:
    """Claim the code that empties a resume function's list of values, so that the list does not keep them alive."""
    role = Role(PieceKind.FRAME, "empties the list that passed the values to this resume function")
    for step in scene.free():
        stores = step.instruction.opname in ("STORE_SUBSCR", "STORE_SLICE")
        if stores and root_of(step.taken[1].form) == Name("local", BOXED):
            scene.whole(step, role)


def claim_lists(scene: Scene) -> None:
    """Claim work on torch's lists, including dropping them."""
    for step in scene.free():
        name = step.instruction.opname
        on_a_list = name == "LIST_APPEND" or any(isinstance(value.form, ListOf) for value in step.taken)
        if name in _LIST_WORK and on_a_list:
            scene.whole(step, scene.frame)
