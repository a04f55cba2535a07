"""Explain the contexts that torch reenters around remaining code, and exits after it.

Source: `ReenterWith.try_finally` (torch 2.11 and 2.13, _dynamo/resume_execution.py): a variable of torch has the
context; the code enters and exits the context, and a handler that reraises exits it, too.
"""

from collections.abc import Iterator, Mapping

from ctrace.inspector.facts.bytecode import Code
from ctrace.inspector.features.bytecode.rewrites.pieces import Claims, PieceKind, Role
from ctrace.inspector.features.bytecode.rewrites.scene import Scene
from ctrace.inspector.features.bytecode.rewrites.stackforms import Attribute, Form, Value, written
from ctrace.inspector.features.bytecode.rewrites.stackwalk import Step, called_by

_DOES = {"__enter__": "enters", "__exit__": "leaves"}
_CLEANING = frozenset(("PUSH_EXC_INFO", "COPY", "POP_EXCEPT", "RERAISE", "NOP"))
_BETWEEN = frozenset(("NOP", "JUMP_FORWARD", "LOAD_CONST", "POP_TOP"))


def claim_contexts(scene: Scene) -> None:
    """Claim what enters and exits contexts in torch's variables."""
    claims, code, steps, torchs = scene.claims, scene.after, scene.steps, scene.torchs
    methods = {step.index: found for step in _free(claims, steps) if (found := _method(step, code, torchs)) is not None}
    contexts: dict[str, Form] = {variable: form.of for form, variable in methods.values()}
    if contexts:
        _claim_handlers(claims, code, steps, frozenset(methods))
    for step in _free(claims, steps):
        if step.index not in methods:
            continue
        form, _ = methods[step.index]
        text = f"{_DOES[form.name]} {written(form.of, step.lists)}, around the remaining code"
        _claim_call(claims, step, steps, Role(PieceKind.CONTEXT, text))
    if contexts:
        _claim_stores(claims, steps, contexts)
        _claim_between(claims, code)


def _free(claims: Claims, steps: Mapping[int, Step]) -> Iterator[Step]:
    return (step for _, step in sorted(steps.items()) if claims.is_free(step.index))


def _method(step: Step, code: Code, torchs: frozenset[str]) -> tuple[Attribute, str] | None:
    call = called_by(step)
    if call is None or not isinstance(call[0].form, Attribute) or call[0].form.name not in _DOES:
        return None
    variable = _variable_of_method(call[0], code)
    return (call[0].form, variable) if variable in torchs else None


def _variable_of_method(function: Value, code: Code) -> str:
    """Return the variable that a method's object was loaded from."""
    made = function.parts[0].made if function.parts else -1
    loads = made >= 0 and code.instructions[made].opname.startswith("LOAD_FAST")
    return code.instructions[made].text if loads else ""


def _claim_call(claims: Claims, step: Step, steps: Mapping[int, Step], role: Role) -> None:
    claims.claim(step.index, role)
    for value in step.taken:
        claims.tree(value, role)
    after = steps.get(step.index + 1)
    if after is not None and after.instruction.opname == "POP_TOP" and after.taken == step.put:
        claims.claim(after.index, role)


def _claim_stores(claims: Claims, steps: Mapping[int, Step], contexts: Mapping[str, Form]) -> None:
    for step in _free(claims, steps):
        if step.instruction.opname == "STORE_FAST" and step.instruction.text in contexts:
            role = Role(PieceKind.CONTEXT, f"recreates {written(contexts[step.instruction.text], step.lists)}")
            claims.claim(step.index, role)
            claims.tree(step.taken[0], role)


def _claim_handlers(claims: Claims, code: Code, steps: Mapping[int, Step], methods: frozenset[int]) -> None:
    role = Role(PieceKind.CONTEXT, "leaves it too if the remaining code raises")
    for handler in code.handlers:
        block = list(_block(handler.target, steps))
        leaves = any(step.index in methods for step in block)
        if leaves or all(step.instruction.opname in _CLEANING for step in block):
            for step in block:
                claims.claim(step.index, role)


def _block(offset: int, steps: Mapping[int, Step]) -> Iterator[Step]:
    """Yield the instructions from an offset up to the first that raises."""
    for _, step in sorted(steps.items()):
        if step.instruction.offset >= offset:
            yield step
            if step.instruction.opname == "RERAISE":
                return


def _claim_between(claims: Claims, code: Code) -> None:
    """Claim instructions between two claimed parts: they belong to torch's template and have no effect of their own."""
    role = None
    for at, instruction in enumerate(code.instructions):
        if claims.kind(at) is PieceKind.CONTEXT:
            role = claims.roles[at]
        elif role is not None and claims.is_free(at) and instruction.opname in _BETWEEN:
            claims.claim(at, role)
        else:
            role = None
