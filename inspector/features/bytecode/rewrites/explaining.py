"""Explain each instruction that torch inserted into a function, by following values from producer to consumer.

The shapes are those of torch 2.11 and 2.13: _dynamo/output_graph.py (`compile_subgraph`), codegen.py
(`make_call_generated_code`), symbolic_convert.py (`create_call_resume_at`, `codegen_return_with_pops`) and
resume_execution.py. Everything else is "other inserted code".
"""

from collections.abc import Callable, Collection, Mapping

from ctrace.inspector.facts.bytecode import Rewritten
from ctrace.inspector.features.bytecode.rewrites.changes import change_by, change_by_call, is_unchanged
from ctrace.inspector.features.bytecode.rewrites.clocks import claim_clocks, clock
from ctrace.inspector.features.bytecode.rewrites.comprehensions import claim_comprehensions
from ctrace.inspector.features.bytecode.rewrites.contexts import claim_contexts
from ctrace.inspector.features.bytecode.rewrites.pieces import PieceKind, Role
from ctrace.inspector.features.bytecode.rewrites.replaying import claim_replays
from ctrace.inspector.features.bytecode.rewrites.resumes import resume_point
from ctrace.inspector.features.bytecode.rewrites.resuming import claim_boxed, claim_calls, claim_lists, claim_values
from ctrace.inspector.features.bytecode.rewrites.scene import START, STARTS, Scene, line_words
from ctrace.inspector.features.bytecode.rewrites.stackforms import (
    Call,
    Form,
    Name,
    Value,
    is_graph,
    is_new,
    is_path,
    output_number,
    root_of,
    written,
)
from ctrace.inspector.features.bytecode.rewrites.stackwalk import Step, called_by
from ctrace.inspector.knowledge.words.counting import count

_MOVES = frozenset(("SWAP", "NOP", "PUSH_NULL", "PRECALL", "KW_NAMES", "COPY", "TO_BOOL"))
_BRANCHES = ("POP_JUMP", "JUMP_IF")
_STAR_FLAGS = (0x04, 0x08)
_OTHER = Role(PieceKind.OTHER, "other inserted code")


def roles_of(
    compile_id: str,
    codes: Mapping[str, Rewritten],
    steps: Mapping[int, Step],
    own: Mapping[int, int | None],
    graphs: Collection[str],
) -> list[Role]:
    """Return a role for each instruction of a compilation's new code.

    `own` maps the new indexes of user instructions to lines; `graphs` are the ids of the run's graphs.
    """
    scene = Scene(compile_id, codes, steps, own, graphs)
    for claim in _RULES:
        claim(scene)
    return [scene.claims.roles.get(at, _OTHER) for at in range(len(scene.after.instructions))]


def surely_torchs(steps: Mapping[int, Step], names: Collection[str]) -> frozenset[int]:
    """Find instructions that are certainly torch's, in a function whose old code has these names.

    These are graph calls, torch's clock, their arguments, and lookups of other globals.
    """
    found: set[int] = set()
    for step in steps.values():
        function = called_by(step)
        if function is not None and (is_graph(function[0].form) or clock(function[0].form)):
            found.add(step.index)
            ahead = list(step.taken)
            while ahead:
                value = ahead.pop()
                found.add(value.made)
                ahead += value.parts
        if any(_is_torchs(value.form, names) for value in step.put):
            found.add(step.index)
    return frozenset(found)


def _is_torchs(form: Form, names: Collection[str]) -> bool:
    root = root_of(form) if is_path(form) else None
    return root is not None and root.scope == "global" and root.name not in names


def _starts(scene: Scene) -> None:
    for step in scene.free():
        if step.instruction.opname in STARTS:
            scene.claims.claim(step.index, START)


def _graph_calls(scene: Scene) -> None:
    for step, function, arguments in scene.free_calls():
        if not is_graph(function.form):
            continue
        for number, value in enumerate(arguments):
            scene.claims.tree(value, Role(PieceKind.INPUT, f"input {number}: {_input_text(scene, value, step)}"))
        scene.whole(step, _called_graph(scene, count(len(arguments), "input")))
        if (taker := scene.taker(step)) is not None and taker.instruction.opname in ("STORE_FAST", "POP_TOP"):
            keeps = "keeps" if taker.instruction.opname == "STORE_FAST" else "drops"
            scene.claims.claim(
                taker.index, Role(PieceKind.GRAPH, f"{keeps} what {_graph_words(scene)} returned", scene.graph)
            )


def _called_graph(scene: Scene, inputs: str) -> Role:
    text = f"calls {_graph_words(scene)} with {inputs}"
    if not scene.graph:
        return Role(PieceKind.GRAPH, f"{text} (this run kept no graph of it)", early="loads the compiled function")
    return Role(PieceKind.GRAPH, text, scene.graph, f"loads the function of graph {scene.id}")


def _graph_words(scene: Scene) -> str:
    return f"graph {scene.id}" if scene.graph else "the compiled function"


def _input_text(scene: Scene, value: Value, step: Step) -> str:
    """Describe where an input comes from."""
    text, root = written(value.form, step.lists), root_of(value.form)
    if root is None:
        return text
    if root.scope == "closure":
        return f"{text} (of the enclosing function)"
    if root.scope == "global":
        return f"{text} (a global)" if root.name in scene.before.names else text
    return f"{text} (an argument)" if isinstance(value.form, Name) and _is_argument(scene, root.name) else text


def _is_argument(scene: Scene, name: str) -> bool:
    code = scene.before
    stars = sum(code.flags & flag != 0 for flag in _STAR_FLAGS)
    return resume_point(code) is None and name in code.variables[: code.arguments + code.keyword_only + stars]


def _operands(scene: Scene) -> None:
    for at, number in sorted(scene.own.items()):
        step = scene.steps.get(at)
        if step is None or step.instruction.opname in _MOVES:
            continue
        values = [value for value in step.taken if scene.claims.is_free(value.made)]
        line = line_words(number)
        text = ", ".join(_operand_texts(step))
        role = Role(PieceKind.OPERAND, f"what {line} needs: {text}" if text else f"what {line} needs")
        for value in values:
            scene.claims.tree(value, role)


def _branches(scene: Scene) -> None:
    for step in scene.free():
        if step.instruction.opname.startswith(_BRANCHES) and step.taken:
            form = step.taken[-1].form
            test = written(form, step.lists) + ("" if output_number(form) is None else " of the graph")
            line = line_words(step.instruction.line)
            text = f"branches on {test}, as {line} does; each side continues separately"
            scene.whole(step, Role(PieceKind.BRANCH, text, early=f"what {line} branches on: {test}"))


def _changes(scene: Scene) -> None:
    for step in scene.free():
        drop = scene.dropped(step) if called_by(step) is not None else None
        change = change_by(step) if drop is None else change_by_call(step)
        if change:
            text = f"leaves {step.instruction.text} in its cell" if is_unchanged(step) else f"replays {change}"
            role = Role(PieceKind.CHANGE, text, early=f"to replay: {change}")
            scene.whole(step, role)
            if drop is not None:
                scene.claims.claim(drop.index, role)


def _variables(scene: Scene) -> None:
    for step in scene.free():
        name = step.instruction.text
        if step.instruction.opname == "STORE_FAST" and name not in scene.torchs:
            text = written(step.taken[0].form, step.lists)
            scene.whole(step, Role(PieceKind.VARIABLE, f"{name} = {text}", early=f"for {name}: {text}"))


def _returns(scene: Scene) -> None:
    for step in scene.free():
        if step.instruction.opname == "RETURN_VALUE":
            text = written(step.taken[0].form, step.lists)
            scene.whole(step, Role(PieceKind.RETURN, f"returns {text}", early=f"to return: {text}"))
        elif step.instruction.opname == "RETURN_CONST":
            scene.claims.claim(step.index, Role(PieceKind.RETURN, f"returns {step.instruction.text}"))


def _torch_variables(scene: Scene) -> None:
    """Claim stores to torch's variables, with the role of the stored value, and deletions of these variables."""
    cleanup = Role(PieceKind.CLEANUP, "deletes torch's variables")
    for step in scene.free():
        name, variable = step.instruction.opname, step.instruction.text
        if name == "DELETE_FAST" and variable in scene.torchs:
            scene.claims.claim(step.index, cleanup)
        role = _nearest_role(scene, step.taken[0]) if name == "STORE_FAST" and variable in scene.torchs else None
        if role is not None:
            scene.whole(step, role)


def _values_for_later(scene: Scene) -> None:
    """Claim other values that torch stores for later, such as values derived from an output."""
    for step in scene.free():
        if step.instruction.opname == "STORE_FAST" and step.instruction.text in scene.torchs:
            text = written(step.taken[0].form, step.lists)
            scene.whole(step, Role(PieceKind.VARIABLE, f"keeps {text} for later", early=f"to keep for later: {text}"))


def _nearest_role(scene: Scene, value: Value) -> Role | None:
    """Return the role of the nearest inserted instruction among those that produced a value."""
    ahead = [value]
    while ahead:
        each = ahead.pop(0)
        if not scene.claims.is_free(each.made) and not scene.claims.is_own(each.made):
            return scene.claims.roles[each.made]
        ahead += each.parts
    return None


def _moves(scene: Scene) -> None:
    """Assign to instructions that only move values the role of the next one; before user code, the operands' role."""
    for step in scene.free():
        if step.instruction.opname == "SWAP" and scene.claims.roles.get(step.index - 1) is scene.frame:
            scene.claims.claim(step.index, scene.frame)
    for step in sorted(scene.free(), key=lambda each: -each.index):
        if step.instruction.opname in _MOVES and (role := _moved_for(scene, step.index + 1)) is not None:
            scene.claims.claim(step.index, role)


def _moved_for(scene: Scene, index: int) -> Role | None:
    while scene.claims.kind(index) is PieceKind.CLEANUP:
        index += 1
    return _last_operand(scene, index) if scene.claims.is_own(index) else scene.claims.roles.get(index)


def _last_operand(scene: Scene, index: int) -> Role | None:
    kinds = (role for at in range(index, -1, -1) if (role := scene.claims.roles.get(at)) is not None)
    return next((role for role in kinds if role.kind is PieceKind.OPERAND), None)


def _created_objects(scene: Scene) -> None:
    """Claim the instructions that recreate an object of the traced code."""
    for step in scene.free():
        form = step.taken[0].form if step.instruction.opname == "STORE_FAST" else None
        if step.instruction.text in scene.torchs and isinstance(form, Call) and is_new(form):
            scene.whole(step, Role(PieceKind.OBJECT, f"creates {written(form, step.lists)}, as the traced code did"))


def _operand_texts(step: Step) -> list[str]:
    """Describe the operands of a user instruction, or the call if it is one."""
    if called_by(step) is not None and step.put:
        return [written(step.put[0].form, step.lists)]
    return [written(value.form, step.lists) for value in step.taken]


_RULES: tuple[Callable[[Scene], None], ...] = (
    _starts,
    claim_clocks,
    _graph_calls,
    claim_replays,
    _created_objects,
    claim_comprehensions,
    claim_values,
    _operands,
    claim_contexts,
    _branches,
    claim_boxed,
    _changes,
    _variables,
    claim_calls,
    claim_lists,
    _returns,
    _torch_variables,
    _values_for_later,
    _moves,
)
"""The rules, the most certain first; a rule leaves what it does not recognize to the next rules."""
