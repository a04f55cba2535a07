"""Advice on branches on a tensor's value, if both sides produce tensors."""

import ast
from collections.abc import Iterator

from ctrace.inspector.diagnosis.edits import line_edits, source_of
from ctrace.inspector.diagnosis.rules.values import at_break
from ctrace.inspector.diagnosis.scene import Candidate, Scene
from ctrace.inspector.model.diagnosis import RootCause, RootKind
from ctrace.inspector.model.findings import Break
from ctrace.inspector.model.trial import Trial
from ctrace.inspector.source.text import parsed

_KINDS = (RootKind.TENSOR_BRANCH, RootKind.TENSOR_VALUE)


def choices(scene: Scene) -> Iterator[Candidate]:
    """Offer torch.where for an `if` that sets one name, or returns, on both sides; the trial makes that edit."""
    for cause in scene.causes:
        for each in scene.breaks(cause) if cause.kind in _KINDS else ():
            yield from _choice(scene, cause, each)


def loops(scene: Scene) -> Iterator[Candidate]:
    """Offer a fixed number of steps, or a compiled step, for a loop whose end depends on a tensor's values."""
    for cause in scene.causes:
        for each in scene.breaks(cause) if cause.kind in _KINDS else ():
            end = _end_of_loop(scene.session.listings.get(each.file, ""), each.line)
            if end and scene.is_users(each.file):
                text = (
                    f"{at_break(each)}: {end}, and keep what is finished with torch.where; or leave the loop outside "
                    "and compile one step of it."
                )
                yield Candidate(text, (cause.id,), general=True)


def _end_of_loop(text: str, line: int) -> str:
    """Say how to give the loop that the statement at a line ends a fixed number of steps; empty if it ends none."""
    tree = parsed(text)
    for loop in ast.walk(tree) if tree is not None else ():
        match loop:
            case ast.For(iter=ast.Call(func=ast.Name(id="range"))) if (
                loop.lineno <= line <= (loop.iter.end_lineno or 0)
            ):
                return "loop to a size, such as x.size(1), instead of to a value"
            case ast.While() if loop.lineno <= line <= (loop.test.end_lineno or 0):
                return "make the number of steps a constant"
            case ast.For() | ast.While():
                branch = next((each for each in loop.body if isinstance(each, ast.If) and _is_at(each, line)), None)
                if branch is not None and isinstance(branch.body[-1], ast.Break | ast.Return):
                    return "run the loop to its end"
    return ""


def _is_at(branch: ast.If, line: int) -> bool:
    return branch.lineno <= line <= (branch.test.end_lineno or branch.lineno)


def _choice(scene: Scene, cause: RootCause, each: Break) -> Iterator[Candidate]:
    torch, text = scene.torch_name(each.file), scene.session.listings.get(each.file, "")
    branch = _if_at(text, each.line)
    if branch is None or not torch or not scene.is_users(each.file):
        return
    found = _sides(text, branch)
    if found is None:
        return
    place, name, one, other = found
    test = _without_number(text, branch.test)
    chosen = f"{name}{torch}.where({test}, {one}, {other})"
    edits = line_edits(each.file, text, [(branch.test, "True"), (place, chosen)])
    advice = f"{at_break(each)}: replace the branch by `{chosen}`."
    if edits:
        yield Candidate(advice, (cause.id,), Trial(edits=edits), worth=76, only_checked=True)


def _if_at(text: str, line: int) -> ast.If | None:
    tree = parsed(text)
    found = (node for node in ast.walk(tree) if isinstance(node, ast.If)) if tree is not None else iter(())
    return next((node for node in found if _is_at(node, line)), None)


def _sides(text: str, branch: ast.If) -> tuple[ast.stmt, str, str, str] | None:
    """Return the statement to replace, its beginning and both values; None if one side does more."""
    match branch.body, branch.orelse:
        case [ast.Assign(targets=[ast.Name(id=name)], value=one) as place], []:
            return place, f"{name} = ", source_of(text, one), name
        case (
            [ast.Assign(targets=[ast.Name(id=name)], value=one) as place],
            [ast.Assign(targets=[ast.Name(id=same)], value=other)],
        ) if name == same:
            return place, f"{name} = ", source_of(text, one), source_of(text, other)
        case [ast.Return(value=ast.expr() as one) as place], [ast.Return(value=ast.expr() as other)]:
            return place, "return ", source_of(text, one), source_of(text, other)
        case [ast.Return(value=ast.expr() as one) as place], []:
            after = _after(text, branch)
            if isinstance(after, ast.Return) and after.value is not None:
                return place, "return ", source_of(text, one), source_of(text, after.value)
    return None


def _after(text: str, branch: ast.If) -> ast.stmt | None:
    """Return the statement that follows in the same block."""
    tree = parsed(text)
    for node in ast.walk(tree) if tree is not None else ():
        for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(block, list) and branch in block[:-1]:
                found: ast.stmt = block[block.index(branch) + 1]
                return found
    return None


def _without_number(text: str, test: ast.expr) -> str:
    """Write a condition as a tensor: `x.sum().item() > 0` becomes `x.sum() > 0`."""
    written = source_of(text, test)
    for node in ast.walk(test):
        match node:
            case ast.Call(func=ast.Attribute(value=tensor, attr="item"), args=[]):
                written = written.replace(source_of(text, node), source_of(text, tensor))
    return written
