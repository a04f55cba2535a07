"""Advice on a dictionary that keeps a result for each size: Dynamo makes a graph for each key."""

import ast
import re
from collections.abc import Iterator
from pathlib import PurePath

from msgspec import Struct

from ctrace.inspector.diagnosis.advice_edits import Change, functions_at, line_edits, shortened, source_of
from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene
from ctrace.inspector.facts.diagnosis import RootCause
from ctrace.inspector.facts.findings import CauseKind
from ctrace.inspector.facts.trial import Trial

_OF_SIZES = frozenset((CauseKind.SIZE, CauseKind.RANGE, CauseKind.DUCK_SHAPE))
_ASKED = re.compile(r"len\((?P<length>.+)\)|.+ in (?P<key>.+)")
_ENTRY = "entry"
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Memo(Struct, frozen=True):
    """`if KEY not in TABLE: TABLE[KEY] = ...` in a function that reads `TABLE[KEY]` afterwards."""

    table: str
    key: str
    line: int
    changes: tuple[Change, ...]
    """Computes the entry in each call, and keeps none."""

    def is_subject(self, guard: str) -> bool:
        """Whether a guard asks for the length or a key of the table; a guard names it from the outermost function."""
        asked = _ASKED.fullmatch(guard)
        if asked is None:
            return False
        named = asked["length"] or asked["key"]
        of_object = self.table.removeprefix("self")
        return named == self.table or (of_object != self.table and named.endswith(of_object))


def memos(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to compute in each call what a dictionary keeps for each size."""
    offered: set[tuple[str, int]] = set()
    for cause in scene.causes:
        if cause.expected:  # a table that the first call fills: nothing has to change for that alone
            continue
        file = cause.file or ""
        text = scene.session.listings.get(file, "")
        function = next(iter(functions_at(text, cause.line or 0)[-1:]), None)
        if function is None or not scene.is_users(file):
            continue
        for memo in _memos(text, function):
            if (file, memo.line) not in offered and _has_other_keys(scene, cause, memo):
                offered.add((file, memo.line))
                yield _computed_in_each_call(scene, cause, function, memo)


def _computed_in_each_call(scene: DiagnosisScene, cause: RootCause, function: Function, memo: Memo) -> Candidate:
    file = cause.file or ""
    inside = [
        each
        for each in scene.causes
        if each.file == file and function.lineno <= (each.line or 0) <= (function.end_lineno or 0)
    ]
    of_table = [each for each in inside if _has_other_keys(scene, each, memo)]
    of_sizes = [each for each in inside if _is_of_sizes(scene, each)]
    text = (
        f"{PurePath(file).name}:{memo.line}: `{shortened(memo.table)}` keeps an entry for each "
        f"`{shortened(memo.key)}`, and torch compiles a graph for each. Compute the entry in each call"
    )
    text += ", or make it once in __init__ for the largest size and slice it." if of_sizes else "."
    edits = line_edits(file, scene.session.listings[file], memo.changes)
    return Candidate(
        text,
        tuple(dict.fromkeys(each.id for each in (*of_table, *of_sizes))),
        Trial(edits=edits) if edits else None,
        worth=86,
        short=f"compute `{shortened(memo.table)}[{shortened(memo.key)}]` in each call",
    )


def _has_other_keys(scene: DiagnosisScene, cause: RootCause, memo: Memo) -> bool:
    """Whether the keys of the table differ in the recompilations of a cause."""
    return any(memo.is_subject(each.subject) for each in scene.guards(cause))


def _is_of_sizes(scene: DiagnosisScene, cause: RootCause) -> bool:
    kinds = {each.kind for each in scene.guards(cause)}
    return bool(kinds) and kinds <= _OF_SIZES


def _memos(text: str, function: Function) -> Iterator[Memo]:
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
            yield Memo(name, of, statement.lineno, changes)


def _reads(node: ast.Subscript, table: ast.expr, key: ast.expr) -> bool:
    return (
        not isinstance(node.ctx, ast.Del)
        and ast.unparse(node.value) == ast.unparse(table)
        and ast.unparse(node.slice) == ast.unparse(key)
    )
