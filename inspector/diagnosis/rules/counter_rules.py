"""Advice on integer attributes that a module changes: keep them in a buffer, or make them dynamic."""

import ast
import copy
from collections.abc import Iterable, Iterator
from enum import StrEnum

from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene, in_library
from ctrace.inspector.diagnosis.naming import at
from ctrace.inspector.diagnosis.number_uses import number_use
from ctrace.inspector.diagnosis.rules.value_rules import division_questions
from ctrace.inspector.edits.line_edits import functions_at, shortened, source_of
from ctrace.inspector.edits.tensors_for_numbers import registered
from ctrace.inspector.edits.torch_options import option_line
from ctrace.inspector.facts.diagnosis import RootCause, RootKind
from ctrace.inspector.facts.findings import Cause, CauseKind
from ctrace.inspector.facts.trial import LineEdit, Trial
from ctrace.inspector.source.number_errors import attribute_errors
from ctrace.inspector.source.text import nodes_of, parsed

_PRESENCE = ("there", "missing")
_CONTAINERS = frozenset(("ModuleList", "ModuleDict", "list", "dict", "defaultdict", "OrderedDict"))
_NUMBERS = (("allow_unspec_int_on_nn_module", True),)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def buffers(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer a buffer for a counter that the model's code increments; the trial makes that edit."""
    for cause, guard in counters(scene):
        name, owner = guard.subject.rpartition(".")[2], _owner(scene, cause)
        torch = scene.torch_name(cause.file or "")
        if owner is None or not torch or not scene.is_users(cause.file) or not _is_counted_up(owner, name):
            continue
        if _needs_number(owner, name) or _needs_constant(owner, name):
            continue
        # What holds a length or a size has another replacement, which `open_integers` names.
        if _kind_of(scene, cause, owner, name)[0] is not _Kind.COUNTER:
            continue
        made = registered(name, torch, _start(owner, name, guard), owner=_receiver_of(_init(owner)))
        edit = _made_in_init(scene, cause.file or "", owner, name, made)
        text = (
            f"{at(cause)}: keep {guard.subject} in a buffer, {made} in __init__, and increment it as a tensor: "
            "torch specializes on each value of a Python number."
        )
        yield Candidate(text, (cause.id,), Trial(edits=(edit,)) if edit else None, worth=66)


def open_integers(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer the setting that makes integers of modules dynamic."""
    for cause, guard in counters(scene):
        if not _is_of_module(guard, _receiver(scene, cause)):
            continue
        owner, name = _owner(scene, cause), guard.subject.rpartition(".")[2]
        is_users = scene.is_users(cause.file)
        kind, source = _kind_of(scene, cause, owner, name)
        what = _WORDS[kind].replace("{source}", source)
        # The setting makes the integer dynamic, and the use makes it a constant again: no trial can help.
        if owner is not None and _needs_constant(owner, name):
            if is_users:
                text = (
                    f"{at(cause)}: {guard.subject} {what}, and Python needs its value for a key, an index, a loop or a "
                    f"text, so each value costs a graph, whatever the settings. {_OUTSIDE[kind]} outside of compiled "
                    "code, and pass in what depends on it."
                )
                yield Candidate(text, (cause.id,), worth=65)
            continue
        decides = (owner is not None and _needs_number(owner, name)) or number_use(scene, cause) is not None
        shared = next((each.shared_by for each in scene.recompiles(cause) if each.shared_by), "")
        if shared:
            what = f"differs between {shared}"
        other = _OTHERWISE[kind]
        if decides:  # a tensor in its place would break the graph
            other = "choose what depends on it outside of compiled code"
        instead = in_library(cause.file or "")
        if is_users and other:
            instead = f", or {other.replace('{source}', source)}"
        text = (
            f"{at(cause)}: {guard.subject} {what}, and torch specializes on each value: set "
            f"{option_line('allow_unspec_int_on_nn_module')}{instead}."
        )
        text = " ".join((text, *open_integer_questions(scene, [cause.id])))
        yield Candidate(text, (cause.id,), Trial(settings=_NUMBERS), worth=65)


def open_integer_questions(scene: DiagnosisScene, causes: Iterable[str]) -> list[str]:
    """Return what the author has to allow before the integers of some causes are numbers of a graph."""
    known = set(causes)
    every = [each for each in scene.causes if each.id in known]
    names = {guard.subject.rpartition(".")[2] for each in every for guard in scene.guards(each) if guard.subject}
    texts = [text for file, text in scene.session.listings.items() if scene.is_users(file)]
    return division_questions(attribute_errors(text, name) for text in texts for name in sorted(names))


class _Kind(StrEnum):
    """What an integer attribute holds, as far as the code shows it."""

    COUNTER = "counter"
    LENGTH = "length"
    SIZE = "size"
    OTHER = "other"


_WORDS = {
    _Kind.COUNTER: "counts up from call to call",
    _Kind.LENGTH: "adds up lengths (`{source}`), and changes from call to call",
    _Kind.SIZE: "holds a size of a tensor (`{source}`), which changes from call to call",
    _Kind.OTHER: "changes from call to call",
}
_OUTSIDE = {
    _Kind.COUNTER: "Count",
    _Kind.LENGTH: "Add up",
    _Kind.SIZE: "Read the size",
    _Kind.OTHER: "Choose the value",
}
_OTHERWISE = {
    _Kind.COUNTER: "keep the count in a buffer (a tensor)",
    _Kind.LENGTH: "keep the length in a tensor",
    _Kind.SIZE: "use `{source}` itself, which becomes dynamic",
    _Kind.OTHER: "",
}


def _kind_of(scene: DiagnosisScene, cause: RootCause, owner: ast.ClassDef | None, name: str) -> tuple[_Kind, str]:
    """Return what an integer attribute holds, by the statements that assign it, and the source of what they assign."""
    text = scene.session.listings.get(cause.file or "", "")
    # Another class of the file may have an attribute of that name, so look into the own one first.
    where: ast.AST | None = parsed(text)
    if owner is not None and _is_counted_up(owner, name):
        where = owner
    kinds: dict[_Kind, str] = {}
    for function in nodes_of(where):
        if not isinstance(function, _FUNCTIONS) or function.name == "__init__":
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Assign | ast.AugAssign) and _assigns(node, name):
                grows = isinstance(node, ast.AugAssign) or _reads(node.value, {name})
                kinds.setdefault(_kind(node.value, grows=grows), shortened(source_of(text, node.value)))
    # Of several assignments, the kind that says most: the order of `_Kind`.
    return next(((kind, kinds[kind]) for kind in _Kind if kind in kinds), (_Kind.OTHER, ""))


def _kind(value: ast.expr, *, grows: bool) -> _Kind:
    parts = list(ast.walk(value))
    sized = any(isinstance(each, ast.Attribute) and each.attr in ("shape", "size", "numel") for each in parts)
    counted = any(isinstance(each, ast.Call) and getattr(each.func, "id", "") == "len" for each in parts)
    if sized or counted:
        if grows:
            return _Kind.LENGTH
        return _Kind.SIZE
    steps = [each for each in parts if isinstance(each, ast.Constant) and type(each.value) is int]
    if grows and steps:
        return _Kind.COUNTER
    return _Kind.OTHER


def counters(scene: DiagnosisScene) -> Iterator[tuple[RootCause, Cause]]:
    """Yield the causes that are an integer attribute of a module, with its first change."""
    for cause in scene.causes:
        guards = [each for each in scene.guards(cause) if each.kind is CauseKind.ATTRIBUTE_VALUE]
        if cause.kind is RootKind.ATTRIBUTE_VALUE and not cause.expected and _are_integers(guards):
            # That an attribute appeared is no change of its value.
            counting = [each for each in guards if not {each.was, each.now} & set(_PRESENCE)]
            owner = _owner(scene, cause)
            receiver = _receiver(scene, cause)
            if owner is None or owner.bases or not counting[0].subject.startswith(f"{receiver}."):  # else no module
                yield cause, counting[0]


def _are_integers(guards: list[Cause]) -> bool:
    values = [value for guard in guards for value in (guard.was, guard.now) if value not in _PRESENCE]
    return bool(values) and all(value is not None and value.lstrip("-").isdecimal() for value in values)


def _is_of_module(guard: Cause, receiver: str) -> bool:
    """Whether a module owns the attribute, which torch's setting covers; it does not cover those of other objects."""
    return guard.subject.startswith((f"{receiver}.", "model."))


def _receiver(scene: DiagnosisScene, cause: RootCause) -> str:
    """Return what the method around a cause's line calls its object."""
    functions = functions_at(scene.session.listings.get(cause.file or "", ""), cause.line or -1)
    return _receiver_of(next(iter(functions), None))


def _receiver_of(method: ast.FunctionDef | ast.AsyncFunctionDef | None) -> str:
    """Return the first parameter of a method, which is mostly `self`."""
    if method is not None:
        for parameter in (*method.args.posonlyargs, *method.args.args):
            return parameter.arg
    return "self"


def _init(owner: ast.ClassDef) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    return next((node for node in owner.body if isinstance(node, _FUNCTIONS) and node.name == "__init__"), None)


def _start(owner: ast.ClassDef, name: str, guard: Cause) -> str:
    """Return the number that a counter starts at: what `__init__` assigns, or else what its first change shows."""
    for node in ast.walk(_init(owner) or ast.Module([], [])):
        match node:
            case ast.Assign(value=ast.Constant(value=int(start))) if _assigns(node, name):
                return str(start)
    # The first graph was compiled in the first call, which may have counted already: 1 then was 0 before.
    if guard.was is None or not guard.was.lstrip("-").isdecimal() or guard.was == "1":
        return "0"
    return guard.was


def _owner(scene: DiagnosisScene, cause: RootCause) -> ast.ClassDef | None:
    """Return the class around the line, in which each method calls its object `self`."""
    tree = parsed(scene.session.listings.get(cause.file or "", ""))
    line = cause.line or -1
    classes = [node for node in ast.walk(tree or ast.Module([], [])) if isinstance(node, ast.ClassDef)]
    around = [node for node in classes if node.lineno <= line <= (node.end_lineno or 0)]
    if around:
        return _with_self(around[-1])
    return None


def _with_self(owner: ast.ClassDef) -> ast.ClassDef:
    methods = [node for node in owner.body if isinstance(node, _FUNCTIONS)]
    if all(_receiver_of(method) == "self" for method in methods):
        return owner
    # A copy, since `parsed` hands the same tree of a text to all rules.
    renamed = copy.deepcopy(owner)
    for method in renamed.body:
        if isinstance(method, _FUNCTIONS):
            receiver = _receiver_of(method)
            for node in ast.walk(method):
                if isinstance(node, ast.Name) and node.id == receiver:
                    node.id = "self"
    return renamed


def _is_counted_up(owner: ast.ClassDef, name: str) -> bool:
    """Whether a method other than __init__ assigns the attribute; a caller that assigns it would need a tensor, too."""
    methods = [node for node in owner.body if isinstance(node, _FUNCTIONS) and node.name != "__init__"]
    return any(_assigns(node, name) for method in methods for node in ast.walk(method))


def _needs_number(owner: ast.ClassDef, name: str) -> bool:
    """Whether a method branches on the attribute, loops up to it, or takes an item at it: with a tensor in its place,
    these break the graph.
    """
    methods = [node for node in owner.body if isinstance(node, _FUNCTIONS) and node.name != "__init__"]
    nodes = [node for method in methods for node in ast.walk(method)]
    # Also by a local name: `n = self.n`, and then `if n > 3`.
    copies = [node for node in nodes if isinstance(node, ast.Assign) and _reads(node.value, {name})]
    holders = {name} | {target.id for node in copies for target in node.targets if isinstance(target, ast.Name)}
    return any(_reads(part, holders) for node in nodes for part in _numbers_in(node))


def _needs_constant(owner: ast.ClassDef, name: str) -> bool:
    """Whether a method uses the attribute where torch specializes even on a dynamic integer: in text, as a key of a
    container, as the index of a list, or as the end of a loop. Measured with allow_unspec_int_on_nn_module, 2.13.
    """
    methods = [node for node in owner.body if isinstance(node, _FUNCTIONS) and node.name != "__init__"]
    for method in methods:
        local = {each.arg for each in ast.walk(method) if isinstance(each, ast.arg)}
        names = [each for each in ast.walk(method) if isinstance(each, ast.Name)]
        local |= {each.id for each in names if isinstance(each.ctx, ast.Store)}
        lists = _containers(owner)
        for node in ast.walk(method):
            if any(_reads(part, {name}) for part in _constants_in(node, local, lists)):
                return True
    return False


def _constants_in(node: ast.AST, local: set[str], lists: set[str]) -> Iterator[ast.expr]:
    match node:
        case ast.FormattedValue(value=value):
            yield value
        case ast.Call(func=ast.Name(id="range" | "str" | "repr"), args=arguments):
            yield from arguments
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str()), attr="format"), args=arguments):
            yield from arguments
        # A parameter or a local variable may be a tensor, whose index stays dynamic.
        case ast.Subscript(value=ast.Name(id=name), slice=index) if name not in local:
            yield index
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id="self"), attr=attr), slice=index) if attr in lists:
            yield index
        case ast.Compare(ops=[ast.In() | ast.NotIn()], left=left):
            yield left


def _containers(owner: ast.ClassDef) -> set[str]:
    """Return the attributes to which a class assigns a list, a dict or a container of modules."""
    found = set()
    for node in ast.walk(owner):
        match node:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=attr)], value=value):
                if _is_container(value):
                    found.add(attr)
    return found


def _is_container(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return getattr(value.func, "attr", getattr(value.func, "id", "")) in _CONTAINERS
    return isinstance(value, ast.List | ast.Dict | ast.ListComp | ast.DictComp | ast.Tuple)


def _numbers_in(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the parts of a node that Python needs as numbers or truth values."""
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
            yield test
        case ast.Call(func=ast.Name(id="range" | "int" | "float" | "bool"), args=arguments):
            yield from arguments
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id="self")), slice=index):
            yield index
        case ast.Compare(ops=[ast.In() | ast.NotIn()], left=left):
            yield left


def _reads(node: ast.expr, names: set[str]) -> bool:
    parts = ast.walk(node)
    return any(
        (isinstance(each, ast.Attribute) and each.attr in names) or (isinstance(each, ast.Name) and each.id in names)
        for each in parts
    )


def _assigns(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Assign(targets=targets):
            return any(isinstance(each, ast.Attribute) and each.attr == name for each in targets)
        case ast.AugAssign(target=ast.Attribute(attr=attr)):
            return attr == name
    return False


def _made_in_init(scene: DiagnosisScene, file: str, owner: ast.ClassDef, name: str, made: str) -> LineEdit | None:
    """Replace the number in __init__ with the buffer, or add the buffer after the call of super().__init__."""
    init = _init(owner)
    if init is None:
        return None
    body = init.body
    on_one_line = [node for node in body if node.lineno == node.end_lineno]  # an edit replaces one line
    for node in on_one_line:
        if _assigns(node, name):
            text = scene.line(file, node.lineno)
            return LineEdit(file, node.lineno, _indented(text, made), text.strip())
    # An assignment over several lines would stay, and a module refuses a number under the name of a buffer.
    if any(_assigns(node, name) for node in body):
        return None
    for node in on_one_line:
        text = scene.line(file, node.lineno)
        if "super().__init__(" in text:  # a module takes a buffer only after that
            return LineEdit(file, node.lineno, f"{text}; {made}", text.strip())
    return None


def _indented(line: str, text: str) -> str:
    return f"{line[: len(line) - len(line.lstrip())]}{text}"
