"""Advice on a loop that makes most of a graph, because Dynamo writes each of its passes into it."""

import ast
from collections.abc import Iterator
from itertools import chain
from pathlib import PurePath

from ctrace.inspector.diagnosis.attribute_changes import compile_statements
from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene
from ctrace.inspector.diagnosis.loop_bodies import moved_body
from ctrace.inspector.facts.graph_facts import Unrolled
from ctrace.inspector.facts.trial import NewText, Trial
from ctrace.inspector.source.text import parsed

_LONG = 16
_MANY_OPS = 100
_SHARE = 0.5
"""From so many passes, ops, and so large a share of its graph on, a loop is named: compile time grows with each op."""
_IN_TORCH = "/torch/nn/"


def long_loops(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to compile one pass of a loop instead of all; a trial compares the compile times."""
    loop = next(iter(scene.session.unrolled), None)
    if scene.causes or loop is None or loop.times < _LONG or loop.ops < _MANY_OPS or not _is_most(scene, loop):
        return
    where = f"{PurePath(loop.file).name}:{loop.line}"
    passes = f"the loop is unrolled {loop.times} times ({loop.ops} ops)"
    moved = None
    if scene.is_users(loop.file):
        text, torch = scene.session.listings.get(loop.file, ""), scene.torch_name(loop.file)
        moved = moved_body(text, loop.line, torch) if torch else None
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
        yield Candidate(advice, (), trial, worth=41, only_checked=True, needs_backend=True, saves_time=True)
    if any(each.compile_seconds is not None for each in scene.session.trials):
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
    change = Trial(parts=tuple(called)) if called and moved is None else None
    yield Candidate(text, (), change=change)


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
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.For | ast.While) and node.lineno == loop.line:
            for call in chain.from_iterable(map(ast.walk, node.body)):
                match call:
                    case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
                        found.setdefault(f"model.{name}", None)
    return [path for path in found if path in known and _IN_TORCH not in known[path].file.replace("\\", "/")]
