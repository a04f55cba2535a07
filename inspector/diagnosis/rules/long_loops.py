"""Advice on a loop that makes most of a graph, because Dynamo writes each of its passes into it.

The body of the loop moves to a function, which can be compiled once instead of once for each pass.
"""

import ast
import textwrap
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import PurePath

from msgspec import Struct

from ctrace.inspector.diagnosis.attribute_changes import compile_statements
from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene
from ctrace.inspector.edits.line_edits import functions_at
from ctrace.inspector.facts.graph_facts import Unrolled
from ctrace.inspector.facts.trial import NewText, Trial
from ctrace.inspector.source.attribute_writes import ADDING
from ctrace.inspector.source.text import nodes_of, parsed

_LONG = 16
"""Rounds below which an unrolled loop costs little to compile."""
_MANY_OPS = 100
"""Operations below which an unrolled loop costs little to compile, whatever its rounds."""
_SHARE = 0.5
"""From so many passes, ops, and so large a share of its graph on, a loop is named: compile time grows with each op."""
_IN_TORCH = "/torch/nn/"
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_LEAVING = (ast.Break, ast.Continue, ast.Return, ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_STEPS = ("step", "one_step", "loop_step")
"""Names for the new function."""


def long_loops(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to compile one pass of a loop instead of all; a trial compares the compile times."""
    loop = next(iter(scene.session.unrolled), None)
    # Advice on findings comes first, as it may change what is in the graph of the loop.
    if scene.causes or loop is None or loop.times < _LONG or loop.ops < _MANY_OPS or not _is_most(scene, loop):
        return
    where = f"{PurePath(loop.file).name}:{loop.line}"
    passes = f"the loop is unrolled {loop.times} times ({loop.ops} ops)"
    moved = None
    if scene.is_users(loop.file):
        text, torch = scene.session.listings.get(loop.file, ""), scene.torch_name(loop.file)
        moved = None
        if torch:
            moved = moved_body(text, loop.line, torch)
    if moved is not None:
        advice = (
            f"{where}: move lines {moved.first} to {moved.last}, the body of the loop, to {moved.name}(), and compile "
            f"that instead of the whole: {passes}, and its body then compiles once."
        )
        trial = Trial(sources=(NewText(loop.file, moved.text),))
        yield Candidate(advice, (), trial, worth=40, only_checked=True, needs_backend=True, saves_time=True)
    known = {each.path: each for each in scene.session.parts}
    called = _called_in(scene, loop)
    statements = ""
    if called:
        statements = "; ".join(f"`{each}`" for each in compile_statements(called, known))
        advice = f"{where}: compile what the loop calls instead of the whole: {statements}. Now {passes}."
        trial = Trial(parts=tuple(called))
        # Above moving the body (40): a module that exists needs no new function.
        yield Candidate(advice, (), trial, worth=41, only_checked=True, needs_backend=True, saves_time=True)
    was_tried = any(each.compile_seconds is not None for each in scene.session.trials)
    if was_tried:
        text = f"Nothing to fix. At {where}, {passes}; compiling one pass instead was tried and takes as long."
    elif moved is not None:
        how = f"move lines {moved.first} to {moved.last}, the body of the loop, to a function, and compile that"
        text = f"{where}: {passes}. If compiling takes too long, {how} instead of the whole."
    elif called:
        how = f"compile what it calls instead of the whole: {statements}"
        text = f"{where}: {passes}. If compiling takes too long, {how}."
    else:
        how = "compile one pass instead of the whole"
        text = f"Nothing to fix. At {where}, {passes}; if compiling takes too long, {how}."
    change = None
    if called and moved is None:
        change = Trial(parts=tuple(called))
    names_no_change = was_tried or (moved is None and not called)
    yield Candidate(text, (), change=change, is_no_change=names_no_change)


def _is_most(scene: DiagnosisScene, loop: Unrolled) -> bool:
    """Whether a loop makes most ops of its graph."""
    ops = next((each.ops for each in scene.session.graphs if each.id == loop.graph), None)
    return ops is None or loop.ops >= _SHARE * ops


def _called_in(scene: DiagnosisScene, loop: Unrolled) -> list[str]:
    """Return the paths of the user's modules that a loop's body calls as attributes of `self`, if that is the model.

    A layer of torch is too small to be compiled alone.
    """
    if not scene.is_users(loop.file):
        return []
    known = {each.path: each for each in scene.session.parts}
    tree = parsed(scene.session.listings.get(loop.file, ""))
    found: dict[str, None] = {}
    for node in nodes_of(tree):
        if isinstance(node, ast.For | ast.While) and node.lineno == loop.line:
            for call in chain.from_iterable(map(ast.walk, node.body)):
                match call:
                    case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
                        found.setdefault(f"model.{name}", None)
    return [path for path in found if path in known and _IN_TORCH not in known[path].file.replace("\\", "/")]


class MovedBody(Struct, frozen=True):
    """A file in which the body of a loop is a function, and the function around the loop runs eagerly."""

    text: str
    name: str
    """The new function, as the loop calls it."""
    first: int
    last: int
    """The lines that moved."""


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def moved_body(text: str, line: int, torch: str) -> MovedBody | None:
    """Return a file with the body of the loop at a line in a function; None: this body cannot be moved as it is.

    What reads the loop's variable stays in the loop, and so does what stores the results of a pass: an index that
    changes, or a list that grows, would compile the function again.
    """
    functions, tree = functions_at(text, line), parsed(text)
    if not functions or tree is None:
        return None
    function = functions[-1]
    loops = (node for node in ast.walk(function) if isinstance(node, ast.For | ast.While))
    loop = next((node for node in loops if node.lineno == line), None)
    # The step is inserted right above the `def`, where decorators of the function would apply to it.
    if loop is None or loop.orelse or function.decorator_list:
        return None
    parts = _parts(loop)
    if parts is None:
        return None
    before, inside, after, values = parts
    local = _local(function)
    given = _read_first([*inside, *values], local - {"self"})
    kept = _stored(inside) & (_loaded_outside(function, loop, inside) | set(given) | _loaded(after))
    made = [f"value_{number}" for number in range(1, len(values) + 1)]
    taken = local | _attributes(tree)
    new = next((name for name in _STEPS if name not in taken), "")
    if not new or taken & {*made}:
        return None
    returned = [*sorted(kept), *made]
    # A body without inputs or results works by its effects alone.
    if not returned or not given:
        return None
    is_method = bool(function.args.args) and function.args.args[0].arg == "self"
    lines = text.split("\n")
    indent = _indent(lines[function.lineno - 1])
    parameters, name = given, new
    if is_method:
        parameters, name = ["self", *given], f"self.{new}"
    first, last = inside[0].lineno, inside[-1].end_lineno or inside[-1].lineno
    body = [textwrap.dedent("\n".join(lines[first - 1 : last]))]
    body += [f"{each} = {ast.unparse(value)}" for each, value in zip(made, values, strict=True)]
    body.append(f"return {', '.join(returned)}")
    step = [f"def {new}({', '.join(parameters)}):", *textwrap.indent("\n".join(body), "    ").split("\n"), ""]
    pad = _indent(lines[loop.body[0].lineno - 1])
    stored = _with_values(after, made)
    passes = [*map(ast.unparse, before), f"{', '.join(returned)} = {name}({', '.join(given)})", *stored]
    written = [pad + each for each in "\n".join(passes).split("\n")]
    # `recursive=False`: the loop runs eagerly, and the step that it calls still compiles.
    eager = f"{indent}@{torch}.compiler.disable(recursive=False)"
    moved = [
        *lines[: function.lineno - 1],
        *(f"{indent}{each}" if each else "" for each in step),
        eager,
        *lines[function.lineno - 1 : loop.body[0].lineno - 1],
        *written,
        *lines[loop.body[-1].end_lineno or loop.body[-1].lineno :],
    ]
    result = "\n".join(moved)
    is_valid = parsed(result) is not None
    if is_valid:
        return MovedBody(result, name, first, last)
    return None


_Parts = tuple[list[ast.stmt], list[ast.stmt], list[ast.stmt], list[ast.expr]]


def _parts(loop: ast.For | ast.While) -> _Parts | None:
    """Return what stays first, what moves, what stays last, and the values that the last part stores."""
    if isinstance(loop, ast.For):
        index = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    else:
        index = set()
    body = list(loop.body)
    before: list[ast.stmt] = []
    # `x_t = x[:, t]` stays: the step gets the slice, and not the index, which is another constant in each pass.
    while body and isinstance(body[0], ast.Assign) and _loaded([body[0]]) & index:
        before.append(body.pop(0))
    after: list[ast.stmt] = []
    values: list[ast.expr] = []
    while body and (value := _stores(body[-1])) is not None and not _names(value) & index:
        after.insert(0, body.pop())
        if not isinstance(value, ast.Name):
            values.insert(0, value)
    for node in (each for statement in body for each in ast.walk(statement)):
        if isinstance(node, (*_LEAVING, *_SCOPES)) or (isinstance(node, ast.Name) and node.id in index):
            return None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _GROWING:
            return None
    if body:
        return (before, body, after, values)
    return None


_GROWING = ADDING - {"add"}
"""Methods that put something into a container; `add` of a tensor computes."""


def _stores(statement: ast.stmt) -> ast.expr | None:
    """Return the value that a statement puts into a list or a tensor; None: it does something else."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(), attr="append"), args=[value], keywords=[])):
            return value
        case ast.Assign(targets=[ast.Subscript(value=ast.Name())], value=value):
            return value
    return None


def _with_values(after: Iterable[ast.stmt], made: list[str]) -> list[str]:
    """Write the statements that store the results of a pass, with the names that the results have in the loop."""
    names, written = iter(made), []
    for statement in after:
        value = _stores(statement)
        assert value is not None
        if isinstance(value, ast.Name):
            name = value.id
        else:
            name = next(names)
        match statement:
            case ast.Expr(value=ast.Call(func=func)):
                written.append(f"{ast.unparse(func)}({name})")
            case ast.Assign(targets=[target]):
                written.append(f"{ast.unparse(target)} = {name}")
    return written


def _local(function: _Function) -> set[str]:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    extra = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    return {each.arg for each in (*every, *extra)} | _stored(function.body)


def _read_first(nodes: Iterable[ast.stmt | ast.expr], local: set[str]) -> list[str]:
    """Return the local variables that are read before they are certainly assigned, in order."""
    known: set[str] = set()
    found: dict[str, None] = {}
    for node in nodes:
        found |= dict.fromkeys(sorted((_names(node) & local) - known))
        # Only a plain assignment certainly binds: one inside of an `if` may not run.
        if isinstance(node, ast.Assign):
            known |= _stored([node])
    return list(found)


def _loaded_outside(function: _Function, loop: ast.AST, inside: list[ast.stmt]) -> set[str]:
    """Return the names that the function reads elsewhere than in the part that moves."""
    mine = {id(node) for statement in inside for node in ast.walk(statement)}
    every = (node for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    test = set()
    if isinstance(loop, ast.While):
        test = {id(node) for node in ast.walk(loop.test)}
    return {node.id for node in every if id(node) not in mine or id(node) in test}


def _loaded(statements: Iterable[ast.stmt]) -> set[str]:
    return set().union(*map(_names, statements))


def _names(node: ast.AST) -> set[str]:
    """Return the names that a piece of code reads; an augmented assignment reads its target."""
    read = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    augmented = (each.target for each in ast.walk(node) if isinstance(each, ast.AugAssign))
    return read | {each.id for each in augmented if isinstance(each, ast.Name)}


def _stored(statements: Iterable[ast.stmt]) -> set[str]:
    nodes = (node for statement in statements for node in ast.walk(statement))
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _attributes(tree: ast.Module) -> set[str]:
    """Return the names of functions and attributes in a file, among which a new function must not be."""
    found = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return found | {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
