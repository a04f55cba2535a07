"""Move prints and warnings behind the graph: `reorderable_logging_functions`.

They then run when the graph has: what raises before that leaves them out, and a tensor that is changed in place is
printed as it is afterwards (measured, 2.13).
"""

import ast
from collections.abc import Iterator

from ctrace.inspector.diagnosis.diagnosis_scene import DiagnosisScene
from ctrace.inspector.diagnosis.naming import break_kind
from ctrace.inspector.edits.line_edits import functions_at, statement_at
from ctrace.inspector.edits.torch_options import added_line
from ctrace.inspector.facts.diagnosis import RootKind
from ctrace.inspector.facts.findings import Break
from ctrace.inspector.features.fix.repairs.repair_model import ConfigurationRepair, Setting

_NAME = "reorderable_logging_functions"
_FUNCTIONS = {"print": ("print", ()), "warnings.warn": ("warnings.warn", ("warnings",))}
_LATER = "May {name}() write after the graph has run? What raises before that leaves it out."
_CHANGED = "May {name}() write a tensor as it is after the graph has run? It may be changed in place before that."


def _find(scene: DiagnosisScene) -> Iterator[Setting]:
    for name, (function, needs) in _FUNCTIONS.items():
        causes = {
            cause.id: [
                each
                for each in scene.breaks(cause)
                if break_kind(each) is RootKind.OUTPUT and f"{name}(" in each.source
            ]
            for cause in scene.causes
        }
        ids = tuple(cause for cause, found in causes.items() if found)
        if ids:
            questions = [one for found in causes.values() for each in found for one in _questions(scene, each, name)]
            yield Setting(
                f"Let compiled code call {function}() after the graph: {_NAME}.",
                ids,
                added_line(_NAME, function),
                needs,
                question=" ".join(dict.fromkeys(questions)),
            )


def _questions(scene: DiagnosisScene, each: Break, name: str) -> Iterator[str]:
    """Yield what only the author knows: whether the order matters, by reading the functions on the way to a break."""
    places = {(each.file, each.line), *((frame.file, frame.line) for path in each.paths for frame in path)}
    functions = [
        functions_at(scene.session.listings.get(file, ""), line)[-1:] for file, line in places if scene.is_users(file)
    ]
    nodes = [node for found in functions for function in found for node in ast.walk(function)]
    if any(isinstance(node, ast.Assert | ast.Raise | ast.Try) for node in nodes):
        yield _LATER.format(name=name)
    statement = statement_at(scene.session.listings.get(each.file, ""), each.line)
    if statement is not None and _prints_itself(statement) and any(map(_writes, nodes)):
        yield _CHANGED.format(name=name)


def _prints_itself(statement: ast.AST) -> bool:
    """Whether a call gets what a name, an attribute or an index holds, not only what an op computes from it."""
    for call in ast.walk(statement):
        if not isinstance(call, ast.Call):
            continue
        for argument in call.args:
            if isinstance(argument, ast.Name | ast.Attribute | ast.Subscript | ast.Starred | ast.JoinedStr):
                return True
    return False


def _writes(node: ast.AST) -> bool:
    """Whether a node changes something in place: an item, or a tensor by `+=` or by a method such as `add_`."""
    match node:
        case ast.AugAssign():
            return True
        case ast.Assign(targets=targets):
            return any(isinstance(each, ast.Subscript) for each in targets)
        case ast.Call(func=ast.Attribute(attr=name)):
            return name.endswith("_") and not name.endswith("__")
    return False


REPAIR = ConfigurationRepair(_NAME, "Print after the graph", _find)
