"""Advice on caches that the user's code keeps, since Dynamo guards on what is in them.

In generation (`generation`, `growing_lists`), a prompt and single tokens need one graph each, and a growing cache costs
more graphs. For a dictionary that keeps a result for each size (`memos`), Dynamo makes a graph for each key.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import PurePath

from msgspec import Struct

from ctrace.inspector.diagnosis.decoding import Growth, growth_in, is_switch, plain_name, sized
from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene
from ctrace.inspector.diagnosis.naming import place_ahead
from ctrace.inspector.edits.line_edits import Change, functions_at, line_edits, shortened, source_of, trial_of
from ctrace.inspector.facts.diagnosis import RootCause
from ctrace.inspector.facts.findings import Cause, CauseKind
from ctrace.inspector.facts.shape_facts import DimKind
from ctrace.inspector.knowledge.counting import count
from ctrace.inspector.source.attribute_writes import ADDING
from ctrace.inspector.source.text import nodes_of, parsed

_CACHE_TYPE = re.compile(r"GuardManager: source=[^\n]*type=<class 'transformers\.cache_utils\.\w+'>")
_COUNTERS = (CauseKind.ATTRIBUTE_VALUE, CauseKind.GLOBAL_VALUE)
_LEAST = 2
"""The fewest lengths after the first that show that a list grows in each call."""


def generation(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer a cache of fixed size if a cache grows; otherwise say that prompt and single tokens need one graph each."""
    grown = [(cause, found) for cause in scene.causes if (found := _growth(scene, cause)) is not None]
    switched = [
        cause for cause in scene.causes if any(is_switch(scene.session, each) for each in scene.recompiles(cause))
    ]
    if grown:
        causes = dict.fromkeys([cause.id for cause, _ in grown] + [cause.id for cause in switched])
        number = len({each.compilation for cause, _ in grown for each in scene.recompiles(cause)})
        text = _fixed_size(scene, grown[0][1], number, has_switch=bool(switched))
        yield Candidate(text, tuple(causes), worth=85)
    # Beside other causes, "nothing to change" would be wrong for the run as a whole.
    elif switched and len(switched) == len(scene.causes):
        text = f"Nothing to change: a prompt and single tokens ({_change(scene, switched[0])}) need one graph each."
        yield Candidate(text, tuple(cause.id for cause in switched), worth=85, is_no_change=True)


def _growth(scene: DiagnosisScene, cause: RootCause) -> Growth | None:
    return next((found for each in scene.recompiles(cause) if (found := growth_in(scene.session, each))), None)


def _fixed_size(scene: DiagnosisScene, growth: Growth, number: int, *, has_switch: bool) -> str:
    """Advise a cache that does not grow, and say how often this one recompiled in the run."""
    if _is_of_transformers(scene):
        how = 'Use a cache of fixed size: StaticCache, or cache_implementation="static" in generate()'
    else:
        how = "Preallocate the cache at its largest size, and write each step into it"
    cost = f"{count(number, 'recompilation')} in this run"
    if _is_dynamic(scene, growth.name):
        cost += ", after which one graph takes all lengths"
    rest = " Prefill and decode need one graph each in any case." if has_switch else ""
    return f"{how}. This one grows ({growth.name} {growth.was} → {growth.now}): {cost}.{rest}"


def _is_dynamic(scene: DiagnosisScene, name: str) -> bool:
    """Whether the last graph that has a size takes other values of it, too."""
    kinds = []
    for tensor in (tensor for shaped in scene.session.shapes for tensor in shaped.tensors):
        kinds += [dim.kind for dim in tensor.dims if f"{plain_name(tensor.name)}.size({dim.index})" == name]
    # The first graph has fixed sizes in any case: torch makes a size dynamic when it has seen a second one.
    return bool(kinds) and kinds[-1] in (DimKind.SYMBOLIC, DimKind.DUCK)


def _is_of_transformers(scene: DiagnosisScene) -> bool:
    """Whether a guard checks a cache of transformers; the model itself may come from elsewhere."""
    return any(_CACHE_TYPE.search(each.text) for each in scene.session.guards.values())


def _change(scene: DiagnosisScene, cause: RootCause) -> str:
    guard = next(each for each in scene.guards(cause) if (at_ := sized(each)) and at_[1] >= 1)
    return f"{plain_name(guard.subject)} {guard.was} → {guard.now}"


def growing_lists(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer a tensor of fixed size instead of a list that grows in each call."""
    for cause in scene.causes:
        lengths = _growing(scene, cause)
        # A counter that grows along with the list has rules of its own, which know how to keep it.
        if not lengths or cause.title.startswith(_counters_changed(scene, cause)):
            continue
        name = lengths[0].subject.removeprefix("len(").removesuffix(")")
        if name.isidentifier() and not _fills(scene, cause, name):
            continue
        place = place_ahead(cause)
        # What a call passes has another length each time; only what the model itself fills can be said to grow.
        if _is_of_argument(name) and not _is_filled(scene, cause, name.rpartition(".")[2]):
            text = (
                f"{place}{lengths[0].subject} differs between calls, and each length costs a graph: pass objects with "
                "few different lengths, or move the code that goes through the items out of compiled code."
            )
            yield Candidate(text, (cause.id,), worth=55)
            continue
        text = (
            f"{place}{lengths[0].subject} grows from call to call, and each length costs a graph. "
            "Keep the items outside of compiled code, or in one tensor of fixed size that each call writes into."
        )
        if counters := _counters_changed(scene, cause):
            text += f" Count {counters[0].removesuffix(' changed')} outside, too: each value also costs a graph."
        yield Candidate(text, (cause.id,), worth=60)


def _growing(scene: DiagnosisScene, cause: RootCause) -> list[Cause]:
    """Return the changes of the one length that grows in several calls; empty if there is none, or more than one."""
    found: dict[str, list[Cause]] = {}
    for each in scene.guards(cause):
        if each.kind is CauseKind.LENGTH and _grows(each.was, each.now):
            found.setdefault(each.subject, []).append(each)
    several = [each for each in found.values() if len({guard.now for guard in each}) >= _LEAST]
    if len(several) == 1:
        return several[0]
    return []


def _counters_changed(scene: DiagnosisScene, cause: RootCause) -> tuple[str, ...]:
    """Return how titles about integers begin that change in each recompilation, such as `self.step changed`."""
    in_each = [{each.subject for each in every.causes if each.kind in _COUNTERS} for every in scene.recompiles(cause)]
    # In each of them: a counter that changed beside the list only once is not what compiles in each call.
    if in_each:
        return tuple(f"{subject} changed" for subject in sorted(set.intersection(*in_each)))
    return ()


def _fills(scene: DiagnosisScene, cause: RootCause, name: str) -> bool:
    """Whether the function itself adds to the container; if not, the caller just passes other numbers of items."""
    functions = functions_at(scene.session.listings.get(cause.file or "", ""), cause.line or 0)
    for node in (node for function in functions for node in ast.walk(function)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=found), attr=attr)) if attr in ADDING:
                pass
            case ast.Subscript(value=ast.Name(id=found), ctx=ast.Store()):
                pass
            case _:
                continue
        if found == name:
            return True
    return False


def _is_of_argument(name: str) -> bool:
    """Whether a name is an attribute of anything but the model, such as `node.children`."""
    return bool(re.fullmatch(r"(?!(?:self|model)\.)\w+(?:\.\w+)+", name))


def _is_filled(scene: DiagnosisScene, cause: RootCause, attribute: str) -> bool:
    """Whether code in the cause's file adds to an attribute; if the file is not known, assume so."""
    tree = parsed(scene.session.listings.get(cause.file or "", ""))
    for node in nodes_of(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr=found), attr=attr)) if attr in ADDING:
                pass
            case ast.Subscript(value=ast.Attribute(attr=found), ctx=ast.Store()):
                pass
            case ast.AugAssign(target=ast.Attribute(attr=found)):
                pass
            case _:
                continue
        if found == attribute:
            return True
    return tree is None


def _grows(was: str | None, now: str | None) -> bool:
    return was is not None and now is not None and was.isdecimal() and now.isdecimal() and int(was) < int(now)


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
        # `self.table` of a submodule is `self.layer.table` in a guard, so what follows `self` is compared from the end.
        # A plain name is compared as a whole, as other names may end with it.
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
        functions = functions_at(text, cause.line or 0)
        if not functions or not scene.is_users(file):
            continue
        function = functions[-1]  # the innermost one
        for memo in _memos(text, function):
            # Each size may be a cause of its own, and one edit is for all of them.
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
    if of_sizes:
        text += ", or make it once in __init__ for the largest size and slice it"
    text += "."
    edits = line_edits(file, scene.session.listings[file], memo.changes)
    return Candidate(
        text,
        tuple(dict.fromkeys(each.id for each in (*of_table, *of_sizes))),
        trial_of(edits),
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
        others = []
        if fills:
            # As text, since each occurrence of `self.table` is a node of its own.
            others = [each for each in ast.walk(function) if ast.unparse(each) == ast.unparse(table)]
        if fills and len(others) == len(uses) + 1:  # the function asks the dictionary nothing else
            # `if True: entry = ...` keeps each line in its place, so that findings of the trial can be compared.
            changes = ((statement.test, "True"), *((each, entry) for each in uses))
            yield Memo(name, of, statement.lineno, changes)


def _reads(node: ast.Subscript, table: ast.expr, key: ast.expr) -> bool:
    return (
        not isinstance(node.ctx, ast.Del)
        and ast.unparse(node.value) == ast.unparse(table)
        and ast.unparse(node.slice) == ast.unparse(key)
    )
