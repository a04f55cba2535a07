"""Explain each instruction that torch inserted into a function (`roles_of`), by following values to their consumer.

Each `claim_...` function explains one kind of code. The shapes are those of torch 2.11 and 2.13:
_dynamo/output_graph.py (`compile_subgraph`), codegen.py (`make_call_generated_code`), symbolic_convert.py
(`create_call_resume_at`, `codegen_return_with_pops`) and resume_execution.py. Everything else is "other inserted code".

**Side effects** that torch replays are described as statements. The shapes are those of `codegen_update_mutated` (torch
2.11 and 2.13, _dynamo/side_effects.py:1303).

**The clock** for loading a graph's inputs (_dynamo/codegen.py, `make_call_generated_code`). Torch 2.11 to 2.14 call the
clock; torch 2.15 inserts compiled templates (`_pregraph_marker_enter_template` and `_pregraph_marker_exit_template`),
which call it only while a profiler runs: tests, calls and jumps, in one run of instructions that ends by dropping the
None that the template returns.

**Contexts** that torch reenters around remaining code, and exits after it (`ReenterWith.try_finally`, torch 2.11 and
2.13, _dynamo/resume_execution.py): a variable of torch has the context; the code enters and exits the context, and a
handler that reraises exits it, too.

**Templates** that replay changes to a user's subclass of dict or list (`_manual_dict_setitem` and
`_manual_list_update`, torch 2.11 and 2.13, _dynamo/side_effects.py): torch calls the built-in methods on the object,
not those of its class. It inserts the templates' compiled code, so each is a run of instructions; the last one drops
the None that the template returns.

**Calls of resume functions**: their arguments, how torch packs them, and where they continue (`create_call_resume_at`
and `codegen_call_resume`, torch 2.11 and 2.13, _dynamo/symbolic_convert.py).

**Comprehensions** that Dynamo cannot trace: torch 2.13 moves each one to a new function and calls it
(`_build_comprehension_fn`, _dynamo/comprehension_graph_break.py; from Python 3.12 on, where a comprehension is part of
its enclosing function).
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping

from ctrace.inspector.facts.bytecode_facts import Code, Instruction, Rewritten
from ctrace.inspector.features.bytecode.bytecode_scene import (
    START,
    STARTS,
    BytecodeScene,
    Claims,
    PieceKind,
    PieceRole,
    line_words,
)
from ctrace.inspector.features.bytecode.opcodes import index_at
from ctrace.inspector.features.bytecode.resume_functions import BOXED, Resume, called_resume, resume_of, resume_point
from ctrace.inspector.features.bytecode.stackforms import (
    Attribute,
    BuiltContainer,
    CallResult,
    ConstantForm,
    Form,
    ItemForm,
    ListOf,
    Lists,
    Value,
    VariableForm,
    is_graph,
    is_new,
    is_path,
    output_number,
    root_of,
    written,
    written_owner,
)
from ctrace.inspector.features.bytecode.stackwalk import WalkStep, called, called_by
from ctrace.inspector.knowledge.counting import count
from ctrace.inspector.source.stacks import resumed

_CALLED = re.compile(r"__comprehension_.*_at_(\d{1,9})_\d+")
_ADDS = frozenset(("LIST_APPEND", "SET_ADD", "MAP_ADD"))
_POPS_NULL = ConstantForm("<function>")
"""A function that torch stores as a constant; torch calls it to take a NULL off the stack (`pop_null`)."""


def claim_comprehensions(scene: BytecodeScene) -> None:
    """Claim the calls of comprehensions and their arguments."""
    # A list: what is claimed in the loop is no longer free.
    for step, function, arguments in list(scene.free_calls()):
        line = None
        if isinstance(function.form, VariableForm):
            line = _line(function.form.name)
        if line is not None:
            what = f"the comprehension of line {line}"
            text = f"runs {what} eagerly, in a function that torch created for it"
            scene.whole(step, PieceRole(PieceKind.COMPREHENSION, text, early=f"for {what}"))
        elif function.form == _POPS_NULL and not arguments and (drop := scene.dropped(step)) is not None:
            scene.whole(step, scene.frame)
            scene.claims.claim(drop.index, scene.frame)


def in_comprehensions(before: Code, after: Code) -> dict[int, PieceRole]:
    """Return the old instructions that torch moved to functions for comprehensions."""
    found: dict[int, PieceRole] = {}
    for line in filter(None, map(_line, after.names)):
        role = PieceRole(
            PieceKind.LATER, f"run eagerly, in the function that torch created for the comprehension of line {line}"
        )
        for at, each in enumerate(before.instructions):
            if not _begins(each, line) or not each.target:
                continue
            inside = range(at, index_at(before, each.target) + 1)
            # An ordinary `for` on the same line adds to no comprehension, and stays.
            if any(before.instructions[other].opname in _ADDS for other in inside):
                found.update(dict.fromkeys(inside, role))
    return found


def _line(name: str) -> int | None:
    match = _CALLED.fullmatch(name)
    if not match:
        return None
    return int(match[1])


def _begins(each: Instruction, line: int) -> bool:
    return each.opname == "FOR_ITER" and each.line == line


_LIST_WORK = frozenset(("STORE_SUBSCR", "STORE_SLICE", "DELETE_SUBSCR", "LIST_EXTEND", "LIST_APPEND", "POP_TOP"))


def _resumes(scene: BytecodeScene) -> Iterator[tuple[WalkStep, str | Code, Value]]:
    """Yield the calls of resume functions with their arguments."""
    for step, function, arguments in scene.free_calls():
        name = called_resume(function.form)
        if name is not None and step.instruction.opname == "CALL_FUNCTION_EX" and arguments:
            yield step, name, arguments[0]


def claim_values(scene: BytecodeScene) -> None:
    """Claim the producers of each value for a resume function."""
    for step, name, values in _resumes(scene):
        resume = resume_of(name, scene.before, scene.codes)
        # The first two are torch's lists.
        if isinstance(values.form, ListOf):
            items = step.lists.get(values.form.number, ())[2:]
        else:
            items = ()
        names = resume.arguments
        if len(names) != len(items):  # the resume function is not known: then neither are its parameters
            names = ("",) * len(items)
        for item, name_ in zip(items, names, strict=True):
            is_torchs = name_.startswith("___stack")  # a value on the stack, which has no name of the user
            _pass(scene, item.root, "" if is_torchs else name_, step)


def _pass(scene: BytecodeScene, value: Value, name: str, step: WalkStep) -> None:
    text = written(value.form, step.lists)
    if name not in ("", text):
        text = f"{name} = {text}"
    kind = PieceKind.PASS
    if output_number(value.form) is not None:
        kind = PieceKind.OUTPUT
    if isinstance(value.form, ListOf) and not name:  # a list that torch made to pass other values in
        return
    scene.claims.tree(value, PieceRole(kind, f"for the resume function: {text}"))


def claim_calls(scene: BytecodeScene) -> None:
    """Claim the calls of resume functions and the packing of their values."""
    for step, name, values in list(_resumes(scene)):
        role = _resume_role(scene, resume_of(name, scene.before, scene.codes))
        scene.claims.claim(step.index, role)
        for each in step.taken:
            scene.claims.tree(each, scene.frame if each is values else role)
        taker = scene.taker(step)
        # The function returns what the resume function returns; that return is not the user's.
        if taker is not None and taker.instruction.opname == "RETURN_VALUE":
            scene.claims.claim(taker.index, role)


def _resume_role(scene: BytecodeScene, resume: Resume) -> PieceRole:
    line = ""
    if resume.line is not None:
        line = f" at line {resume.line}"
    ids = ", ".join(resume.ids)
    how = "which this run did not compile: never reached, or runs eagerly"
    if ids:
        how = f"compiled as {ids}"
    text = f"goes on in {resumed(scene.before.name)[0]}{line}, in a resume function, {how}; returns what it returns"
    early = "loads the resume function"
    if ids:
        early += f" {ids}"
    return PieceRole(PieceKind.RESUME, text, resume.ids, early)


def claim_boxed(scene: BytecodeScene) -> None:
    """Claim the code that empties a resume function's list of values, so that the list does not keep them alive."""
    role = PieceRole(PieceKind.FRAME, "empties the list that passed the values to this resume function")
    for step in scene.free():
        stores = step.instruction.opname in ("STORE_SUBSCR", "STORE_SLICE")
        if stores and root_of(step.taken[1].form) == VariableForm("local", BOXED):
            scene.whole(step, role)


def claim_lists(scene: BytecodeScene) -> None:
    """Claim work on torch's lists, including dropping them."""
    for step in scene.free():
        name = step.instruction.opname
        on_a_list = name == "LIST_APPEND" or any(isinstance(value.form, ListOf) for value in step.taken)
        if name in _LIST_WORK and on_a_list:
            scene.whole(step, scene.frame)


_LIST = VariableForm("global", "list")


def claim_replays(scene: BytecodeScene) -> None:
    """Claim each template and the producers of its operands."""
    for step, function, arguments in list(scene.free_calls()):
        form = function.form
        if not isinstance(form, Attribute) or form.name != "clear" or len(arguments) != 1:
            continue
        begin = None
        if _is_own_class(form.of) or form.of == _LIST:
            begin = _begin_replay(scene, function)
        end = _end(scene, step)
        if begin is not None and end is not None:
            _claim(scene, range(begin, end + 1), arguments[0].form)


def _is_own_class(form: Form) -> bool:
    """Whether a value is `type(x).__mro__[n]`, which torch uses to find the built-in class."""
    match form:
        case ItemForm(Attribute(CallResult(VariableForm("global", "type")), "__mro__")):
            return True
    return False


def _begin_replay(scene: BytecodeScene, function: Value) -> int | None:
    """Return the first instruction of a template, which computes the class."""
    made = function.parts[0].made
    variable = scene.after.instructions[made].text
    if variable not in scene.torchs:
        return made
    # Torch may have kept the class in a variable before: the template begins where that was computed.
    kept = scene.keeper(variable, made)
    if kept is None:
        return None
    return _first_replayed(kept.taken[0])


def _first_replayed(value: Value) -> int:
    return min([value.made, *map(_first_replayed, value.parts)])


def _end(scene: BytecodeScene, step: WalkStep) -> int | None:
    """Return the last instruction of a template, which drops a None."""
    for at, each in sorted(scene.steps.items()):
        drops = at > step.index and each.instruction.opname == "POP_TOP"
        if drops and scene.after.instructions[each.taken[0].made].opname == "LOAD_CONST":
            return at
    return None


def _claim(scene: BytecodeScene, template: range, target: Form) -> None:
    steps = [scene.steps[at] for at in template if at in scene.steps]
    lists = steps[-1].lists
    text = next((text for step in steps if (text := _template_text(step, target, lists))), "")
    if not text:
        return
    role = PieceRole(PieceKind.CHANGE, f"replays {text}", early=f"to replay: {text}")
    for at in template:
        scene.claims.claim(at, role)
    for variable in sorted({step.instruction.text for step in steps if step.instruction.text in scene.torchs}):
        kept = scene.keeper(variable, template.start)
        # A variable that other code reads, too, belongs to more than this change.
        if kept is not None and set(scene.loads(variable)) <= set(template):
            scene.whole(kept, role)


def _template_text(step: WalkStep, target: Form, lists: Lists) -> str:
    """Return what a template writes if `step` is the one that takes the new items, and "" for any other step."""
    to = written_owner(target, lists)
    call = called_by(step)
    if call is not None and call[0].form == Attribute(_LIST, "extend"):
        return f"{to}[:] = {written(call[1][-1].form, lists)}, by list's methods"
    if step.instruction.opname != "GET_ITER":
        return ""
    match step.taken[0].form:
        case CallResult(Attribute(CallResult(_, (mapping,), ()), "items")):
            return _updated(to, written(mapping.form, lists))
        case CallResult(Attribute(mapping, "items")):
            return _updated(to, written(mapping, lists))
    return ""


def _updated(to: str, items: str) -> str:
    return f"{to}.clear(), then {to}.update({items}), by dict's methods"


_DOES = {"__enter__": "enters", "__exit__": "leaves"}
_CLEANING = frozenset(("PUSH_EXC_INFO", "COPY", "POP_EXCEPT", "RERAISE", "NOP"))
_BETWEEN = frozenset(("NOP", "JUMP_FORWARD", "LOAD_CONST", "POP_TOP"))


def claim_contexts(scene: BytecodeScene) -> None:
    """Claim what enters and exits contexts in torch's variables."""
    claims, code, steps, torchs = scene.claims, scene.after, scene.steps, scene.torchs
    methods = {step.index: found for step in _free(claims, steps) if (found := _method(step, code, torchs)) is not None}
    contexts: dict[str, Form] = {variable: form.of for form, variable in methods.values()}
    # Handlers first: an exit in a handler is said to be for code that raises.
    if contexts:
        _claim_handlers(claims, code, steps, frozenset(methods))
    for step in _free(claims, steps):
        if step.index not in methods:
            continue
        form, _ = methods[step.index]
        text = f"{_DOES[form.name]} {written(form.of, step.lists)}, around the remaining code"
        _claim_context_call(claims, step, steps, PieceRole(PieceKind.CONTEXT, text))
    if contexts:
        _claim_stores(claims, steps, contexts)
        _claim_between(claims, code)


def _free(claims: Claims, steps: Mapping[int, WalkStep]) -> Iterator[WalkStep]:
    return (step for _, step in sorted(steps.items()) if claims.is_free(step.index))


def _method(step: WalkStep, code: Code, torchs: frozenset[str]) -> tuple[Attribute, str] | None:
    call = called_by(step)
    if call is None or not isinstance(call[0].form, Attribute) or call[0].form.name not in _DOES:
        return None
    variable = _variable_of_method(call[0], code)
    if variable in torchs:
        return (call[0].form, variable)
    return None


def _variable_of_method(function: Value, code: Code) -> str:
    """Return the variable that a method's object was loaded from."""
    made = -1
    if function.parts:
        made = function.parts[0].made
    loads = made >= 0 and code.instructions[made].opname.startswith("LOAD_FAST")
    if loads:
        return code.instructions[made].text
    return ""


def _claim_context_call(claims: Claims, step: WalkStep, steps: Mapping[int, WalkStep], role: PieceRole) -> None:
    claims.claim(step.index, role)
    for value in step.taken:
        claims.tree(value, role)
    after = steps.get(step.index + 1)
    if after is not None and after.instruction.opname == "POP_TOP" and after.taken == step.put:
        claims.claim(after.index, role)


def _claim_stores(claims: Claims, steps: Mapping[int, WalkStep], contexts: Mapping[str, Form]) -> None:
    for step in _free(claims, steps):
        if step.instruction.opname == "STORE_FAST" and step.instruction.text in contexts:
            role = PieceRole(PieceKind.CONTEXT, f"recreates {written(contexts[step.instruction.text], step.lists)}")
            claims.claim(step.index, role)
            claims.tree(step.taken[0], role)


def _claim_handlers(claims: Claims, code: Code, steps: Mapping[int, WalkStep], methods: frozenset[int]) -> None:
    role = PieceRole(PieceKind.CONTEXT, "leaves it too if the remaining code raises")
    for handler in code.handlers:
        block = list(_block(handler.target, steps))
        leaves = any(step.index in methods for step in block)
        # A handler of a handler only cleans up the exception, and belongs to the template as well.
        if leaves or all(step.instruction.opname in _CLEANING for step in block):
            for step in block:
                claims.claim(step.index, role)


def _block(offset: int, steps: Mapping[int, WalkStep]) -> Iterator[WalkStep]:
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


_CLOCKS = {"record_pregraph_bytecode_enter": "starts", "record_pregraph_bytecode_exit": "stops"}
_FLAG = "_is_profiler_enabled"
_JUMPS = ("POP_JUMP", "JUMP_IF")


def clock(form: Form) -> str | None:
    """Return what a function does to torch's clock, `starts` or `stops`; None for other functions."""
    if isinstance(form, Attribute) and is_path(form):
        return _CLOCKS.get(form.name)
    return None


def claim_clocks(scene: BytecodeScene) -> None:
    """Claim each call of the clock, with the template around it, if it is in one."""
    for step, function, _ in scene.free_calls():
        does = clock(function.form)
        if does is None:
            continue
        template = _template(scene, step)
        if template is None:
            _claim_call(scene, step, PieceRole(PieceKind.TIMER, f"{does} torch's clock for loading the inputs"))
            continue
        role = PieceRole(PieceKind.TIMER, f"{does} torch's clock for loading the inputs, if a profiler runs")
        for at in template:
            scene.claims.claim(at, role)


def _claim_call(scene: BytecodeScene, step: WalkStep, role: PieceRole) -> None:
    scene.whole(step, role)
    if (taker := scene.taker(step)) is not None:
        scene.claims.claim(taker.index, role)


def _template(scene: BytecodeScene, call: WalkStep) -> range | None:
    """Return the instructions of the template around a call; None if no branch of torch skips the call."""
    offsets = {each.offset: at for at, each in enumerate(scene.after.instructions)}
    # The nearest branch in front of the call is the one that skips it.
    for at in range(call.index - 1, -1, -1):
        step = scene.steps.get(at)
        if step is None or not step.instruction.opname.startswith(_JUMPS) or not scene.claims.is_free(at):
            continue
        target = offsets.get(step.instruction.target or -1, -1)
        end = next((drop for drop in range(target, len(scene.after.instructions)) if _drops(scene, drop)), None)
        if target <= call.index or end is None:
            return None
        return range(_begin(scene, step.taken[-1]), end + 1)
    return None


def _drops(scene: BytecodeScene, at: int) -> bool:
    return scene.after.instructions[at].opname == "POP_TOP"


def _begin(scene: BytecodeScene, tested: Value) -> int:
    """Return the first instruction that computes what a template tests: the profiler's flag, or the running clock."""
    if isinstance(tested.form, Attribute) and tested.form.name == _FLAG:
        kept = scene.keeper(scene.after.instructions[tested.made].text, tested.made)
        if kept is None:
            return tested.made
        return _first(kept.taken[0])
    return _first(tested)


def _first(value: Value) -> int:
    return min([value.made, *(_first(part) for part in value.parts if part.made >= 0)])


_MOVES = frozenset(("SWAP", "NOP", "PUSH_NULL", "PRECALL", "KW_NAMES", "COPY", "TO_BOOL"))
_BRANCHES = ("POP_JUMP", "JUMP_IF")
_STAR_FLAGS = (0x04, 0x08)
_OTHER = PieceRole(PieceKind.OTHER, "other inserted code")


def roles_of(
    compile_id: str,
    codes: Mapping[str, Rewritten],
    steps: Mapping[int, WalkStep],
    own: Mapping[int, int | None],
    graphs: Collection[str],
) -> list[PieceRole]:
    """Return a role for each instruction of a compilation's new code.

    `own` maps the new indexes of user instructions to lines; `graphs` are the ids of the run's graphs.
    """
    scene = BytecodeScene(compile_id, codes, steps, own, graphs)
    for claim in _RULES:
        claim(scene)
    return [scene.claims.roles.get(at, _OTHER) for at in range(len(scene.after.instructions))]


def surely_torchs(steps: Mapping[int, WalkStep], names: Collection[str]) -> frozenset[int]:
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
    root = None
    if is_path(form):
        root = root_of(form)
    # The old code cannot have loaded a global that it does not name.
    return root is not None and root.scope == "global" and root.name not in names


def _starts(scene: BytecodeScene) -> None:
    for step in scene.free():
        if step.instruction.opname in STARTS:
            scene.claims.claim(step.index, START)


def _graph_calls(scene: BytecodeScene) -> None:
    for step, function, arguments in scene.free_calls():
        if not is_graph(function.form):
            continue
        # The inputs first: what is left of the operands loads the function, and gets the role of the call.
        for number, value in enumerate(arguments):
            scene.claims.tree(value, PieceRole(PieceKind.INPUT, f"input {number}: {_input_text(scene, value, step)}"))
        scene.whole(step, _called_graph(scene, count(len(arguments), "input")))
        if (taker := scene.taker(step)) is not None and taker.instruction.opname in ("STORE_FAST", "POP_TOP"):
            keeps = "keeps" if taker.instruction.opname == "STORE_FAST" else "drops"
            scene.claims.claim(
                taker.index, PieceRole(PieceKind.GRAPH, f"{keeps} what {_graph_words(scene)} returned", scene.graph)
            )


def _called_graph(scene: BytecodeScene, inputs: str) -> PieceRole:
    text = f"calls {_graph_words(scene)} with {inputs}"
    if not scene.graph:
        return PieceRole(PieceKind.GRAPH, f"{text} (this run kept no graph of it)", early="loads the compiled function")
    return PieceRole(PieceKind.GRAPH, text, scene.graph, f"loads the function of graph {scene.id}")


def _graph_words(scene: BytecodeScene) -> str:
    if scene.graph:
        return f"graph {scene.id}"
    return "the compiled function"


def _input_text(scene: BytecodeScene, value: Value, step: WalkStep) -> str:
    """Describe where an input comes from."""
    text, root = written(value.form, step.lists), root_of(value.form)
    if root is None:
        return text
    if root.scope == "closure":
        return f"{text} (of the enclosing function)"
    if root.scope == "global":
        if root.name in scene.before.names:
            return f"{text} (a global)"
        return text
    if isinstance(value.form, VariableForm) and _is_argument(scene, root.name):
        return f"{text} (an argument)"
    return text


def _is_argument(scene: BytecodeScene, name: str) -> bool:
    code = scene.before
    stars = sum(code.flags & flag != 0 for flag in _STAR_FLAGS)
    # The parameters of a resume function are values that torch passes on.
    return resume_point(code) is None and name in code.variables[: code.arguments + code.keyword_only + stars]


def _operands(scene: BytecodeScene) -> None:
    for at, number in sorted(scene.own.items()):
        step = scene.steps.get(at)
        if step is None or step.instruction.opname in _MOVES:
            continue
        values = [value for value in step.taken if scene.claims.is_free(value.made)]
        line = line_words(number)
        what = f"what {line} needs"
        if text := ", ".join(_operand_texts(step)):
            what += f": {text}"
        role = PieceRole(PieceKind.OPERAND, what)
        for value in values:
            scene.claims.tree(value, role)


def _branches(scene: BytecodeScene) -> None:
    for step in scene.free():
        if step.instruction.opname.startswith(_BRANCHES) and step.taken:
            form = step.taken[-1].form
            test = written(form, step.lists)
            if output_number(form) is not None:
                test += " of the graph"
            line = line_words(step.instruction.line)
            text = f"branches on {test}, as {line} does; each side continues separately"
            scene.whole(step, PieceRole(PieceKind.BRANCH, text, early=f"what {line} branches on: {test}"))


def _changes(scene: BytecodeScene) -> None:
    for step in scene.free():
        drop = None
        if called_by(step) is not None:
            drop = scene.dropped(step)
        if drop is None:
            change = change_by(step)
        else:
            change = change_by_call(step)
        if change:
            if is_unchanged(step):
                text = f"leaves {step.instruction.text} in its cell"
            else:
                text = f"replays {change}"
            role = PieceRole(PieceKind.CHANGE, text, early=f"to replay: {change}")
            scene.whole(step, role)
            if drop is not None:
                scene.claims.claim(drop.index, role)


def _variables(scene: BytecodeScene) -> None:
    for step in scene.free():
        name = step.instruction.text
        if step.instruction.opname == "STORE_FAST" and name not in scene.torchs:
            text = written(step.taken[0].form, step.lists)
            scene.whole(step, PieceRole(PieceKind.VARIABLE, f"{name} = {text}", early=f"for {name}: {text}"))


def _returns(scene: BytecodeScene) -> None:
    for step in scene.free():
        if step.instruction.opname == "RETURN_VALUE":
            text = written(step.taken[0].form, step.lists)
            scene.whole(step, PieceRole(PieceKind.RETURN, f"returns {text}", early=f"to return: {text}"))
        elif step.instruction.opname == "RETURN_CONST":
            scene.claims.claim(step.index, PieceRole(PieceKind.RETURN, f"returns {step.instruction.text}"))


def _torch_variables(scene: BytecodeScene) -> None:
    """Claim stores to torch's variables, with the role of the stored value, and deletions of these variables."""
    cleanup = PieceRole(PieceKind.CLEANUP, "deletes torch's variables")
    for step in scene.free():
        name, variable = step.instruction.opname, step.instruction.text
        if name == "DELETE_FAST" and variable in scene.torchs:
            scene.claims.claim(step.index, cleanup)
        role = None
        if name == "STORE_FAST" and variable in scene.torchs:
            role = _nearest_role(scene, step.taken[0])
        if role is not None:
            scene.whole(step, role)


def _values_for_later(scene: BytecodeScene) -> None:
    """Claim other values that torch stores for later, such as values derived from an output."""
    for step in scene.free():
        if step.instruction.opname == "STORE_FAST" and step.instruction.text in scene.torchs:
            text = written(step.taken[0].form, step.lists)
            scene.whole(
                step, PieceRole(PieceKind.VARIABLE, f"keeps {text} for later", early=f"to keep for later: {text}")
            )


def _nearest_role(scene: BytecodeScene, value: Value) -> PieceRole | None:
    """Return the role of the nearest inserted instruction among those that produced a value."""
    ahead = [value]
    while ahead:
        each = ahead.pop(0)
        if not scene.claims.is_free(each.made) and not scene.claims.is_own(each.made):
            return scene.claims.roles[each.made]
        ahead += each.parts
    return None


def _moves(scene: BytecodeScene) -> None:
    """Assign to instructions that only move values the role of the next one; before user code, the operands' role."""
    for step in scene.free():
        if step.instruction.opname == "SWAP" and scene.claims.roles.get(step.index - 1) is scene.frame:
            scene.claims.claim(step.index, scene.frame)
    # From the end: the next instruction may be a move, too.
    for step in sorted(scene.free(), key=lambda each: -each.index):
        if step.instruction.opname in _MOVES and (role := _moved_for(scene, step.index + 1)) is not None:
            scene.claims.claim(step.index, role)


def _moved_for(scene: BytecodeScene, index: int) -> PieceRole | None:
    while scene.claims.kind(index) is PieceKind.CLEANUP:
        index += 1
    if scene.claims.is_own(index):
        return _last_operand(scene, index)
    return scene.claims.roles.get(index)


def _last_operand(scene: BytecodeScene, index: int) -> PieceRole | None:
    kinds = (role for at in range(index, -1, -1) if (role := scene.claims.roles.get(at)) is not None)
    return next((role for role in kinds if role.kind is PieceKind.OPERAND), None)


def _created_objects(scene: BytecodeScene) -> None:
    """Claim the instructions that recreate an object of the traced code."""
    for step in scene.free():
        form = None
        if step.instruction.opname == "STORE_FAST":
            form = step.taken[0].form
        if step.instruction.text in scene.torchs and isinstance(form, CallResult) and is_new(form):
            scene.whole(
                step, PieceRole(PieceKind.OBJECT, f"creates {written(form, step.lists)}, as the traced code did")
            )


def _operand_texts(step: WalkStep) -> list[str]:
    """Describe the operands of a user instruction, or the call if it is one."""
    if called_by(step) is not None and step.put:
        return [written(step.put[0].form, step.lists)]
    return [written(value.form, step.lists) for value in step.taken]


_RULES: tuple[Callable[[BytecodeScene], None], ...] = (
    _starts,
    # Before `_branches`: from torch 2.15 on, the clock's template has branches that are not the user's.
    claim_clocks,
    _graph_calls,
    # Before `_changes`, which takes the template's `clear()` for the whole change.
    claim_replays,
    _created_objects,
    # Before `claim_values`: what a comprehension returns may be a value for the resume function.
    claim_comprehensions,
    # Before `claim_lists`, which takes all that such a list holds for packing.
    claim_values,
    _operands,
    # Before the rules for torch's variables, one of which has the context.
    claim_contexts,
    _branches,
    claim_boxed,
    _changes,
    _variables,
    # Before `claim_lists` and `_returns`: the closure of the resume function is not one of torch's lists, and what is
    # returned is its result.
    claim_calls,
    claim_lists,
    _returns,
    # After the rules above, whose roles it passes on to the variables; `_values_for_later` takes all that are left.
    _torch_variables,
    _values_for_later,
    # Last: a move gets the role of what it is for.
    _moves,
)
"""The rules, the most certain first; a rule leaves what it does not recognize to the next rules."""


_SETTERS = ("object_setattr_ignore_descriptor", "__setattr__")
_DELETER = "object_delattr_ignore_descriptor"
_METHODS = frozenset(("update", "clear", "extend", "setstate", "set_torch_function_mode_stack", "iter_next"))
_TABLES = frozenset(("_parameters", "_buffers", "_modules", "__dict__"))


def change_by(step: WalkStep) -> str:
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


def is_unchanged(step: WalkStep) -> bool:
    """Whether a cell is set to its current content."""
    return step.instruction.opname == "STORE_DEREF" and step.taken[0].form == VariableForm(
        "closure", step.instruction.text
    )


def change_by_call(step: WalkStep) -> str:
    """Return what a call with an unused result writes, or "" if it is not a known side effect."""
    function, arguments = called(step.taken)
    if not isinstance(function.form, Attribute):
        return ""
    method = function.form
    texts = [written(each.form, step.lists) for each in arguments]
    owner = ""
    if arguments:
        owner = written_owner(arguments[0].form, step.lists)
    if method.name in _SETTERS and len(arguments) == 3:
        return f"{owner}.{_bare(arguments[1])} = {texts[2]}"
    if method.name == _DELETER and len(arguments) == 2:
        return f"del {owner}.{_bare(arguments[1])}"
    if method.name not in _METHODS:
        return ""
    return _of_a_table(method, arguments, step) or f"{written(method, step.lists)}({', '.join(texts)})"


def _of_a_table(method: Attribute, arguments: tuple[Value, ...], step: WalkStep) -> str:
    """Return the module attributes that a call such as `self._buffers.update({'cnt': ...})` sets."""
    table = method.of
    argument = None
    if len(arguments) == 1:
        argument = arguments[0].form
    is_table = isinstance(table, Attribute) and table.name in _TABLES
    if method.name != "update" or not is_table or not isinstance(argument, BuiltContainer) or argument.kind != "map":
        return ""
    owner = ""
    if isinstance(table, Attribute):
        owner = written(table.of, step.lists)
    pairs = zip(argument.items[::2], argument.items[1::2], strict=False)
    statements = ", ".join(f"{owner}.{_bare(key)} = {written(value.form, step.lists)}" for key, value in pairs)
    if isinstance(table, Attribute):
        return f"{statements}, by {owner}.{table.name}.update"
    return statements


def _bare(value: Value) -> str:
    if isinstance(value.form, ConstantForm):
        return value.form.text.strip("'\"")
    return "…"


def _place(of: Form, key: Form, step: WalkStep) -> str:
    return f"{written_owner(of, step.lists)}[{written(key, step.lists)}]"
