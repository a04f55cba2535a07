"""Advice on a dictionary that keeps a result for each size: Dynamo makes a graph for each key."""

import ast
from collections.abc import Iterator

from msgspec import Struct

from ctrace.inspector.diagnosis.advice_edits import Change, functions_at, line_edits, shortened, source_of
from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene
from ctrace.inspector.diagnosis.naming import at
from ctrace.inspector.facts.diagnosis import RootCause
from ctrace.inspector.facts.findings import CauseKind
from ctrace.inspector.facts.trial import Trial

_OF_SIZES = frozenset((CauseKind.SIZE, CauseKind.RANGE, CauseKind.DUCK_SHAPE))
_ENTRY = "entry"


class Memo(Struct, frozen=True):
    """`if KEY not in TABLE: TABLE[KEY] = ...` in a function that reads `TABLE[KEY]` afterwards."""

    table: str
    key: str
    line: int
    changes: tuple[Change, ...]
    """Computes the entry in each call, and keeps none."""


def memos(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to compute in each call what a dictionary keeps for each size."""
    offered: set[tuple[str, int]] = set()
    for cause in scene.causes:
        text = scene.session.listings.get(cause.file or "", "")
        for function in functions_at(text, cause.line or 0)[-1:] if scene.recompiles(cause) else ():
            for memo in _memos(text, function):
                if (cause.file or "", memo.line) in offered or not _changes(scene, cause, memo):
                    continue
                offered.add((cause.file or "", memo.line))
                related = [each for each in scene.causes if each is cause or _is_of(scene, each, cause, function, memo)]
                edits = line_edits(cause.file or "", text, memo.changes)
                place = at(cause).rpartition(":")[0]
                advice = (
                    f"{place}:{memo.line}: `{memo.table}` keeps an entry for each `{memo.key}`, and torch compiles a "
                    "graph for each. Compute the entry in each call, or make it once in __init__ for the largest size "
                    "and slice it."
                )
                short = f"compute `{memo.table}[{memo.key}]` in each call"
                trial = Trial(edits=edits) if edits else None
                yield Candidate(advice, tuple(each.id for each in related), trial, worth=86, short=short)


def _changes(scene: DiagnosisScene, cause: RootCause, memo: Memo) -> bool:
    """Whether the keys of a dictionary differ in the recompilations of a cause."""
    return any(
        each.subject == f"len({memo.table})" or each.subject.endswith(f" in {memo.table}")
        for each in scene.guards(cause)
    )


def _is_of(
    scene: DiagnosisScene,
    cause: RootCause,
    first: RootCause,
    function: ast.FunctionDef | ast.AsyncFunctionDef,
    memo: Memo,
) -> bool:
    """Whether another cause is the same one: the size that is the key, or the dictionary, in the same function."""
    inside = cause.file == first.file and function.lineno <= (cause.line or 0) <= (function.end_lineno or 0)
    kinds = {each.kind for each in scene.guards(cause)}
    return bool(kinds) and inside and (_changes(scene, cause, memo) or kinds <= _OF_SIZES)


def _memos(text: str, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Memo]:
    """Yield each dictionary that a function fills with an entry that is not there yet."""
    taken = {each.id for each in ast.walk(function) if isinstance(each, ast.Name)}
    entry = next(name for name in (_ENTRY, *(f"{_ENTRY}_{number}" for number in range(99))) if name not in taken)
    for statement in ast.walk(function):
        match statement:
            case ast.If(test=ast.Compare(left=key, ops=[ast.NotIn()], comparators=[table]), orelse=[]):
                pass
            case _:
                continue
        name, of = source_of(text, table), source_of(text, key)
        uses = [each for each in ast.walk(function) if isinstance(each, ast.Subscript) and _reads(each, table, key)]
        fills = any(isinstance(each.ctx, ast.Store) for each in uses)
        others = [each for each in ast.walk(function) if ast.unparse(each) == ast.unparse(table)] if fills else []
        if fills and len(others) == len(uses) + 1:  # the function asks the dictionary nothing else
            changes = ((statement.test, "True"), *((each, entry) for each in uses))
            yield Memo(shortened(name), shortened(of), statement.lineno, changes)


def _reads(node: ast.Subscript, table: ast.expr, key: ast.expr) -> bool:
    return (
        not isinstance(node.ctx, ast.Del)
        and ast.unparse(node.value) == ast.unparse(table)
        and ast.unparse(node.slice) == ast.unparse(key)
    )
