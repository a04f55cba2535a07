"""Advice on data-dependent shapes: masks, nonzero, and experts that select their rows."""

import ast
from collections.abc import Iterator

from ctrace.inspector.diagnosis.advice_edits import covers, functions_at, qualified_name, statement_at
from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene
from ctrace.inspector.diagnosis.library import in_library, package_of
from ctrace.inspector.diagnosis.naming import at
from ctrace.inspector.diagnosis.rules.value_rules import at_break
from ctrace.inspector.facts.diagnosis import RootCause, RootKind
from ctrace.inspector.facts.findings import Break
from ctrace.inspector.facts.trial import Trial
from ctrace.inspector.source.text import parsed

_SHAPES = Trial(settings=(("capture_scalar_outputs", True), ("capture_dynamic_output_shape_ops", True)))
_SWITCH = "torch._dynamo.config.capture_dynamic_output_shape_ops = True and capture_scalar_outputs = True"
_EXPERTS = ("set_experts_implementation", "batched_mm")
_DECORATOR = "use_experts_implementation"
"""The transformers decorator of experts with a selectable implementation (integrations/moe.py, 5.0)."""


def data_dependent_shapes(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to capture ops with a data-dependent output shape, or to keep the shape with a mask."""
    found = [cause for cause in scene.causes if cause.kind is RootKind.DYNAMIC_OUTPUT]
    for cause in found[:1]:
        ids = tuple(each.id for each in found)
        advice = f"{at(cause)}: set {_SWITCH}; or {_mask(scene, cause)}."
        yield Candidate(advice, ids, _SHAPES, 75, only_checked=True, short=f"set {_SWITCH}")
    of_function: dict[tuple[str | None, str | None, str], list[RootCause]] = {}
    for cause in found:
        words = f"{_mask(scene, cause)}{_patch(scene, cause)}"
        of_function.setdefault((cause.file, cause.function, words), []).append(cause)
    for (_, _, words), mine in of_function.items():
        yield Candidate(f"{at(mine[0])}: {words}.", tuple(cause.id for cause in mine))


def _mask(scene: DiagnosisScene, cause: RootCause) -> str:
    if any(_routes(scene.session.listings.get(each.file, ""), each.line) for each in scene.breaks(cause)):
        return "run every expert on all rows and multiply by the mask, so that no size depends on the routing"
    called = {name for each in scene.breaks(cause) for name in _called_at(scene, each)}
    known = (words for name, words in _INSTEAD.items() if name in called)
    return next(known, "keep all rows and multiply by the mask (or torch.where), so that no size depends on data")


_BEFORE = "call it before the compiled call and pass the result: its size depends on data"
_INSTEAD = {
    "bincount": "count with torch.zeros(length).index_add(0, index, ones), whose size you choose: the size of "
    "torch.bincount depends on data, even with minlength",
    "repeat_interleave": f"pass output_size to repeat_interleave, or {_BEFORE}",
    "unique": _BEFORE,
    "unique_consecutive": _BEFORE,
}
"""What to do instead of functions without a mask, keyed by name."""


def _called_at(scene: DiagnosisScene, each: Break) -> set[str]:
    """Return the names of the functions that the statement of a break calls on its line."""
    statement = statement_at(scene.session.listings.get(each.file, ""), each.line)
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)] if statement is not None else []
    named = [node.func for node in calls if covers(node, each.line)]
    return {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in named}


def _patch(scene: DiagnosisScene, cause: RootCause) -> str:
    """Name the function to replace in a package's code; empty for a user's file."""
    package = package_of(cause.file) if cause.file else ""
    if not package:
        return ""
    name = qualified_name(scene.session.listings.get(cause.file or "", ""), cause.line or -1)
    if name:
        return f" ({package}: replace {name} from your code, or report it there)"
    return in_library(cause.file or "")


def _routes(text: str, line: int) -> bool:
    """Whether the function at a line routes rows to experts: a loop calls its variable, or an item at that index."""
    holders = functions_at(text, line)
    for node in ast.walk(holders[-1]) if holders else ():
        if isinstance(node, ast.For | ast.comprehension) and _calls_one_of(holders[-1], node):
            return True
    return False


def _calls_one_of(function: ast.AST, loop: ast.For | ast.comprehension) -> bool:
    names = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    for node in ast.walk(loop if isinstance(loop, ast.For) else function):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in names:
                return True
            case ast.Call(func=ast.Subscript(slice=index)):
                if any(isinstance(each, ast.Name) and each.id in names for each in ast.walk(index)):
                    return True
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id="self")), slice=ast.Name(id=name)) if (
                name in names
            ):
                return True  # one weight per expert
    return False


def experts_of_transformers(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer the library's switch for experts with a selectable implementation."""
    found = [cause for cause in scene.causes if any(_can_be_chosen(scene, each) for each in scene.breaks(cause))]
    if found:
        each = next(each for each in scene.breaks(found[0]) if _can_be_chosen(scene, each))
        text = (
            f'{at_break(each)}: use another experts implementation: model.set_experts_implementation("batched_mm"), or '
            'experts_implementation="batched_mm" in the config ("grouped_mm" on a GPU); '
            f"the one that {package_of(each.file) or 'the library'} runs here loops over the experts that were hit."
        )
        yield Candidate(text, tuple(cause.id for cause in found), Trial(calls=(_EXPERTS,)), worth=92)


def _can_be_chosen(scene: DiagnosisScene, each: Break) -> bool:
    places = [(each.file, each.line), *((frame.file, frame.line) for path in each.paths for frame in path)]
    return any(_is_decorated(scene.session.listings.get(file, ""), line) for file, line in places)


def _is_decorated(text: str, line: int) -> bool:
    if _DECORATOR not in text:
        return False
    tree = parsed(text)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.ClassDef) and covers(node, line):
            return any(_DECORATOR in ast.unparse(each) for each in node.decorator_list)
    return False
