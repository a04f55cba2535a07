"""Find out whether torch takes a value that changes only as a Python number, so that a tensor would not help.

The code around a cause shows to which op the value goes, and torch's schemas which arguments of it take no tensor.
"""

import ast
import re
from collections.abc import Iterator

from msgspec import Struct

from ctrace.inspector.diagnosis.diagnosis_scene import DiagnosisScene
from ctrace.inspector.edits.line_edits import functions_at
from ctrace.inspector.facts.diagnosis import RootCause, RootKind
from ctrace.inspector.knowledge.torch_ops import number_arguments
from ctrace.inspector.source.text import nodes_of, parsed

_KINDS = (
    RootKind.ATTRIBUTE_VALUE,
    RootKind.ARGUMENT_VALUE,
    RootKind.GLOBAL_VALUE,
    RootKind.CLOSURE_VALUE,
)
ASKS_FOR_TENSOR = re.compile(r"\b(?:in|as) a (?:tensor|buffer)\b|torch\.tensor\(|register_buffer\(")
"""How advice begins that puts a tensor in place of a number."""


class NumberUse(Struct, frozen=True):
    """An argument of an op to which a value goes."""

    subject: str
    op: str
    argument: str
    line: int


def number_use(scene: DiagnosisScene, cause: RootCause) -> NumberUse | None:
    """Return the argument without a tensor to which the value of a cause goes; None: there is none in the code."""
    if cause.kind not in _KINDS:
        return None
    for recompile in scene.recompiles(cause):
        for guard in recompile.causes:
            file = guard.file or recompile.file
            if str(guard.kind) == cause.kind and guard.subject:
                uses = _uses(scene.session.listings.get(file, ""), guard.line or recompile.line, guard.subject)
                if (found := next(uses, None)) is not None:
                    return found
    return None


def _uses(text: str, line: int, subject: str) -> Iterator[NumberUse]:
    functions = functions_at(text, line)
    if not functions:
        return
    held = _held(functions[-1], subject)
    modules = _modules(text)
    for call in (node for node in ast.walk(functions[-1]) if isinstance(node, ast.Call)):
        op, offset = _op(call, modules)
        numbers = number_arguments(op)
        for argument, place in numbers.items():
            at = place - offset
            passed = [each.value for each in call.keywords if each.arg == argument]
            # -1 is an argument that takes a keyword only.
            if place > 0 and 0 <= at < len(call.args):
                passed += [call.args[at]]
            if any(_is_from(each, held) for each in passed):
                yield NumberUse(subject, op, argument, call.lineno)


def _held(function: ast.FunctionDef | ast.AsyncFunctionDef, subject: str) -> set[str]:
    """Return how the code writes a value: as it is named in the cause, and as the variables that are set from it."""
    _, dot, last = subject.rpartition(".")
    if dot:
        # A guard names the object as its caller does, `model.alpha`, and the code inside of it `self.alpha`.
        held = {subject, f"self.{last}"}
    else:
        held = {subject}
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_from(value, held):
                held.add(name)
    return held


def _is_from(node: ast.expr, held: set[str]) -> bool:
    """Whether an expression is a value, or computed from it by arithmetic or as one of several."""
    match node:
        case ast.BinOp(left=left, right=right):
            return _is_from(left, held) or _is_from(right, held)
        case ast.UnaryOp(operand=operand):
            return _is_from(operand, held)
        case ast.IfExp(body=one, orelse=other):
            return _is_from(one, held) or _is_from(other, held)
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return any(_is_from(each, held) for each in parts)
        case ast.Name() | ast.Attribute():
            return ast.unparse(node) in held
    return False


def _modules(text: str) -> set[str]:
    """Return the names that a file imports."""
    tree = parsed(text)
    imports = (node for node in nodes_of(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    return {(alias.asname or alias.name).partition(".")[0] for node in imports for alias in node.names}


def _op(call: ast.Call, imported: set[str]) -> tuple[str, int]:
    """Return the op that a call runs, and how many of its arguments come before those in parentheses."""
    match call.func:
        case ast.Name(id=name) if name in imported:
            return name, 0
        case ast.Attribute(value=owner, attr=name):
            root = owner
            while isinstance(root, ast.Attribute):
                root = root.value
            if isinstance(root, ast.Name) and root.id in imported:
                return name, 0
            # `self.dropout(x, p)` may be any function of the model.
            is_models = isinstance(owner, ast.Name) and owner.id == "self"
            if is_models:
                return ("", 0)
            # A method of a tensor, which is the first argument of the op.
            return (name, 1)
    return "", 0
