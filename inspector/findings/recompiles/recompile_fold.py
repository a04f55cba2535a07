"""List the recompilations of a run (`recompiles_of`), their causes relative to the nearest cache entry, and why some
are expected.

In a log that torch alone wrote, its own reasons count as failed guards of the nearest entry.

`fixing` finds the line of the user's code that specialized on a value that changed. Torch may guard a constant later
than where the user reads it. From torch 2.14 on, Dynamo traces arithmetic on an int, float or bool without a guard, and
creates the guard where the result meets a tensor or a branch (_dynamo/variables/ lazy.py,
`ComputedLazyConstantVariable`). Users expect the line that reads the value: for `STEP += 1` and `return x * STEP`, the
first of the two.
"""

import ast
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from msgspec.structs import replace

from ctrace.inspector.facts.findings import TENSOR_CAUSES, Advice, Cause, CauseKind, Frame, Owner, Recompile
from ctrace.inspector.facts.guard_facts import EntryHeld, GuardsFailed, UnmetGuard
from ctrace.inspector.facts.shape_facts import ConditionKind
from ctrace.inspector.facts.stored import text_of
from ctrace.inspector.findings.functions import FunctionPlace, place_of
from ctrace.inspector.findings.guard_tree import TENSOR, check_order, completed, read_comment, sources_of, tensor_of
from ctrace.inspector.findings.recompiles.recompile_causes import (
    OBJECTS,
    caller_of,
    cause_of,
    is_later_layer,
    literal_type,
    shared_by,
)
from ctrace.inspector.findings.recompiles.special_cases import CauseFacts, case_of, cause_key
from ctrace.inspector.findings.shape_symbols import FixedSize, Symbols
from ctrace.inspector.grouping import grouped
from ctrace.inspector.knowledge.advice import advice_on_cause
from ctrace.inspector.knowledge.version_differences import DEFERRED_CONSTANTS
from ctrace.inspector.log.collected_log import CollectedLog
from ctrace.inspector.source.owners import owner_of, user_frame
from ctrace.inspector.source.source_names import argument_name, optimizer_name, user_name
from ctrace.inspector.source.text import any_keywords, nodes_of, parsed, python_lines


def fixing(raw: CollectedLog, nearest: str, compile_id: str, cause: Cause, guard: UnmetGuard) -> FixedSize | None:
    """Find the user's line that specialized on a size or number, in the nearest cache entry or in the new graph."""
    sources = sources_of(guard.text)
    # Torch specializes on 0 and 1 without the user's code, so no line can be named for it.
    if not sources or cause.kind is CauseKind.ZERO_ONE:
        return None
    if cause.kind is CauseKind.RANGE:
        symbols = Symbols(raw, nearest)
        return _condition(symbols, tuple(map(symbols.source_of, sources)), cause, guard)
    known = (Symbols(raw, each) for each in (nearest, compile_id))
    before, after = (each.fixed(each.source_of(sources[0])) for each in known)
    # A condition in the new graph is what the new call passed; it says nothing of why the old entry did not serve.
    return before or (after if after and after.kind is not ConditionKind.CONDITION and after.frame else None)


def _condition(symbols: Symbols, sources: tuple[str, ...], cause: Cause, guard: UnmetGuard) -> FixedSize | None:
    """Find the condition that the call violates: by its text, or by bounds that the new value exceeds."""
    conditions = [each for source in sources for each in symbols.conditions(source) if each.frame is not None]
    text = _without_spaces(user_name(guard.text))
    same_text = [each for each in conditions if _without_spaces(each.condition) == text]
    outside = [each for each in conditions if _is_outside(each, cause.now)]
    unbounded = [each for each in conditions if each.low is None and each.high is None]
    # The same text is certain. Bounds may fit several conditions on one size, and a condition without bounds, e.g. a
    # remainder, cannot be compared with the value at all.
    return next(iter([*same_text, *outside, *unbounded]), None)


def _without_spaces(condition: str) -> str:
    return re.sub(r"[\s()]", "", condition)


def _is_outside(condition: FixedSize, value: str | None) -> bool:
    number = None
    if value and re.fullmatch(r"-?\d+", value):
        number = int(value)
    if number is None:
        return False
    return (condition.low is not None and number < condition.low) or (
        condition.high is not None and number > condition.high
    )


def placed(cause: Cause, guard: UnmetGuard, fixed: FixedSize | None, place: FunctionPlace, raw: CollectedLog) -> Cause:
    """Add the line that specialized on the value; for the result of a call that broke, add the line of that call."""
    if cause.kind is CauseKind.BREAK_RESULT and place.resumes_at:
        return replace(cause, line=place.resumes_at, file=place.file)
    # Torch creates the guards of a tensor at its first use; that line did not specialize on the property.
    by_use = None
    if cause.kind not in TENSOR_CAUSES:
        by_use = user_frame(guard.stack, raw.prefixes)
    if by_use is not None:
        torch, text = str(raw.environment.get("torch", "")), raw.listings.get(by_use.file, "")
        by_use = first_computed(cause, by_use, torch, text)
    frame = by_use
    if frame is None and fixed is not None:
        frame = fixed.frame
    if frame is None:
        return cause
    return replace(cause, line=frame.line, file=frame.file)


_VALUES = frozenset(
    (CauseKind.ARGUMENT_VALUE, CauseKind.ATTRIBUTE_VALUE, CauseKind.GLOBAL_VALUE, CauseKind.CLOSURE_VALUE)
)
_CALLS = frozenset(("min", "max", "abs"))
"""Builtins whose guards torch defers, like those of operators (_dynamo/variables/builtin.py, 2.15)."""


def first_computed(cause: Cause, guarded_at: Frame, torch: str, text: str) -> Frame:
    """Return the function's first line that computes with the value; `guarded_at` if no earlier line does."""
    if cause.kind not in _VALUES or not DEFERRED_CONSTANTS.holds(torch):
        return guarded_at
    function = _function_at(text, guarded_at.line)
    if function is None:
        # An operation inside of a nested function belongs to it, as it may run later or never.
        return guarded_at
    nodes = [node for node in ast.walk(function) if isinstance(node, ast.expr | ast.stmt)]
    lines = [node.lineno for node in nodes if cause.subject in _operands(node)]
    first = min(lines, default=guarded_at.line)
    if first >= guarded_at.line:
        return guarded_at
    return Frame(guarded_at.file, first, guarded_at.function, python_lines(text)[first - 1].strip())


def _function_at(text: str, line: int) -> ast.AST | None:
    """Return the innermost function around a line."""
    tree = parsed(text)
    found = [
        node
        for node in nodes_of(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(found, key=lambda node: node.lineno, default=None)


def _operands(node: ast.AST) -> list[str]:
    """Return the names of the values that an operation computes with."""
    operands: list[ast.expr] = []
    match node:
        case ast.AugAssign(target=target, value=value):
            operands = [target, value]
        case ast.BinOp(left=left, right=right):
            operands = [left, right]
        case ast.UnaryOp(operand=operand):
            operands = [operand]
        case ast.Compare(left=left, comparators=others):
            operands = [left, *others]
        case ast.Call(func=ast.Name(id=name), args=args) if name in _CALLS:
            operands = args
    return [ast.unparse(each) for each in operands if isinstance(each, ast.Name | ast.Attribute)]


_MODES = frozenset((CauseKind.TRAINING_MODE, CauseKind.GRAD_MODE, CauseKind.AUTOCAST))
_MADE_ONCE = frozenset((CauseKind.LENGTH, CauseKind.KEY_ORDER, CauseKind.REQUIRES_GRAD))
"""Kinds of which advice/causes.yaml has expected cases: an optimizer's first step, a cache that fills up, and the
layers after the one that gets data."""
_PLAIN = frozenset(("int", "float", "bool", "str", "NoneType"))
"""Types whose values have no parts."""
_OPEN = "The first change of a value recompiles once and makes the value dynamic."


def why_expected(causes: tuple[Cause, ...]) -> str:
    """Return why a recompilation is expected; empty if at least one of its causes is not."""
    reasons = [_why(cause) for cause in causes]
    if all(reasons):
        return " ".join(dict.fromkeys(reasons))
    return ""


def _why(cause: Cause) -> str:
    if cause.is_open:
        return cause.expected or _OPEN
    is_made_on_first_call = (cause.kind is CauseKind.NONE and "." in cause.subject) or _is_missing(cause)
    if cause.kind in _MODES or cause.kind in _MADE_ONCE or is_made_on_first_call:
        return cause.expected
    return ""


def _is_missing(cause: Cause) -> bool:
    """Whether an attribute did not exist when the entry was compiled."""
    return cause.kind is CauseKind.ATTRIBUTE_VALUE and cause.was == "missing"


_ALIKE = 3
"""How many causes of one kind with the same values to list; the rest is only counted."""


def recompiles_of(raw: CollectedLog) -> tuple[Recompile, ...]:
    """List every compilation after the first of its code object, except refused ones."""
    found = []
    earlier: set[str] = set()
    for compile_id in raw.seen:
        frame = compile_id.partition("/")[0]
        made = raw.has_entry(compile_id)
        # A first attempt that failed leaves no entry, so the next compilation is no recompilation.
        if (made or _found_no_ops(raw, compile_id)) and frame in earlier:
            found.append(_recompile(raw, compile_id))
        if made:
            earlier.add(frame)
    return tuple(found)


def _found_no_ops(raw: CollectedLog, compile_id: str) -> bool:
    """Whether Dynamo traced a function again because guards failed, and found no ops, so that nothing was cached."""
    measured = raw.metrics.get(compile_id)
    asked = compile_id in raw.unmet or compile_id in raw.reasons
    return asked and measured is not None and not measured.fail_type and not measured.is_limit


def _recompile(raw: CollectedLog, compile_id: str) -> Recompile:
    place = place_of(raw, compile_id)
    ours, reasons = raw.unmet.get(compile_id), raw.reasons.get(compile_id, ())
    # ctrace's hook checks all guards of every entry; torch's log has only the first failed guard of each.
    failed = _with_frame_id(compile_id, ours or failed_of(compile_id, reasons, raw.files.values()))
    nearest = None
    if failed:
        nearest = _nearest(raw, failed)
    causes = _causes(raw, compile_id, place, failed, nearest)
    nearest_id = None
    if nearest:
        nearest_id = nearest.id
    shared = shared_by(raw, compile_id, causes, nearest_id)
    if shared:
        causes = tuple(_of_shared(cause, shared) for cause in causes)
    why = why_expected(causes)
    found = Recompile(
        compilation=compile_id,
        function=place.function,
        file=place.file,
        line=place.begins,
        expected=bool(why),
        causes=causes,
        reason=next(iter(reasons), ""),
        why_expected=why,
        nearest=nearest_id,
        # Torch's reasons have one guard for each entry, so their number says nothing about the distance.
        distances={entry.id: entry.number for entry in failed.entries} if failed and ours else {},
        shared_by=shared,
        caller=caller_of(raw, compile_id),
    )
    call = raw.during.get(compile_id)
    if call is None:
        return found
    return replace(found, scenario=call.scenario, call=call.index)


def _of_shared(cause: Cause, shared: str) -> Cause:
    """Say that nothing changed over time: advice for what changes from call to call does not apply."""
    uses = "several calls"
    if shared != OBJECTS:
        uses = shared
    reason = f"The same code serves {uses}, which differ in {cause.subject}: torch compiles it once for each of them."
    return replace(cause, reason=reason, fix="", expected="", advice=Advice())


def _with_frame_id(compile_id: str, failed: GuardsFailed | None) -> GuardsFailed | None:
    """Use the compilation's frame id for the cache entries: torch's ids start again after torch._dynamo.reset()."""
    frame = compile_id.partition("/")[0]
    if failed is None or all(each.id.startswith(f"{frame}/") for each in failed.entries):
        return failed
    entries = tuple(replace(each, id=f"{frame}/{each.id.rpartition('/')[2]}") for each in failed.entries)
    return replace(failed, entries=entries)


def _nearest(raw: CollectedLog, failed: GuardsFailed) -> EntryHeld | None:
    """Return the nearest entry: the one with the fewest causes, on a tie the more general one, then the newer one."""
    unmet = [entry for entry in failed.entries if entry.unmet]
    # With one candidate, a distance would parse all of its guards for nothing.
    if len(unmet) == 1:
        return unmet[0]
    return min(unmet, key=lambda entry: _distance(raw, entry, unmet), default=None)


def _distance(raw: CollectedLog, entry: EntryHeld, entries: Sequence[EntryHeld]) -> tuple[int, ...]:
    """Return how far a call is from an entry, as a sort key.

    The distance is the number of causes. An entry that has None or another type where the call has a tensor or a
    container was compared with nothing of it: for what is inside, at least as many causes count as in another entry,
    so that a cache that grows is nearer to its last size than to None.

    On a tie, guards that follow from other guards count too: inference mode explains missing dispatch keys, but an
    entry whose tensors lack them too, or whose grad mode agrees, is nearer. On another tie, an entry that differs only
    in dispatch keys is nearer, because they are more specific than the grad mode. On a further tie, an entry that was
    compiled for a value of another type ranks behind one of the same type, and one for a size of 0 or 1 ranks last,
    because it serves no other size.

    An entry that is static in a size ranks behind all others if only a condition keeps the call from an entry that is
    dynamic in it.

    If entries have a single failed guard each, an entry is nearer if the call passes more of its checks of a tensor.
    """
    stand = {cause_key(guard): cause_of(guard) for guard in entry.unmet}
    unseen = [cause.subject for cause in stand.values() if _replaces_a_whole(cause)]
    inside = 0
    if unseen:
        inside = max(_number_inside(unseen, each) for each in entries)
    number = len(stand) - len(unseen) + max(len(unseen), inside)
    follow = {cause_key(UnmetGuard(text)) for text in entry.following}
    other = any(cause.kind is not CauseKind.DISPATCH_KEYS for cause in stand.values())
    order = 0
    if entry.number == 1:
        order = -max(map(check_order, entry.unmet))
    special = sum(cause.kind is CauseKind.ZERO_ONE and cause.was in ("0", "1") for cause in map(cause_of, entry.unmet))
    if _is_superseded(raw, entry, entries):
        number += len(entries)
    together = len(follow.union(stand))
    typed = any(cause.kind in (CauseKind.TYPE, CauseKind.NONE) for cause in stand.values())
    # Entries come newest first, and `min` keeps the first of equals: the newer one.
    return number, len(unseen), together, other, typed, order, special, -_open_values(raw, entry.id), entry.number


def _is_superseded(raw: CollectedLog, entry: EntryHeld, entries: Sequence[EntryHeld]) -> bool:
    """Whether an entry differs only in sizes, and another one, in which they are dynamic, differs only in conditions
    on them: a branch on the sizes made the call recompile, and the first of the two would not serve it in any case.
    """
    kinds = {cause_of(guard).kind for guard in entry.unmet}
    opened = _open_values(raw, entry.id)
    return kinds <= {CauseKind.SIZE} and any(
        {cause_of(guard).kind for guard in other.unmet} <= {CauseKind.RANGE} and _open_values(raw, other.id) > opened
        for other in entries
        if other is not entry and other.unmet
    )


def _replaces_a_whole(cause: Cause) -> bool:
    """Whether a value changed between None or another type and a tensor or container."""
    plain = [literal_type(each) or each in _PLAIN for each in (cause.was, cause.now)]
    return cause.kind in (CauseKind.NONE, CauseKind.TYPE) and not all(plain)


def _number_inside(wholes: Iterable[str], entry: EntryHeld) -> int:
    """Count the causes of an entry that are about parts of tensors or containers, such as their sizes."""
    parts = tuple(f"{whole}{mark}" for whole in wholes for mark in ".[")
    return len({cause_key(guard) for guard in entry.unmet if cause_of(guard).subject.startswith(parts)})


def _open_values(raw: CollectedLog, compile_id: str) -> int:
    """Count the dynamic sizes and numbers of an entry."""
    sizes = dynamic_sizes(raw, compile_id).values()
    seen = raw.shapes.get(compile_id)
    numbers = 0
    if seen:
        numbers = sum(number.dim.expression == number.dim.symbol for number in seen.numbers)
    return sum(size is None for each in sizes for size in each) + numbers


def _causes(
    raw: CollectedLog, compile_id: str, place: FunctionPlace, failed: GuardsFailed | None, nearest: EntryHeld | None
) -> tuple[Cause, ...]:
    if failed is None or nearest is None:
        return tuple(_gone(failed)[:1])
    causes = tuple(_cause(raw, compile_id, place, failed, nearest, guard) for guard in nearest.unmet)
    return _folded(tuple(dict.fromkeys(causes)), nearest.number - len(nearest.unmet))


def _gone(failed: GuardsFailed | None) -> list[Cause]:
    """Return causes for entries that torch discarded."""
    if failed is None:
        return []
    guards = [UnmetGuard(entry.invalid) for entry in failed.entries if entry.invalid]
    return [_advised(cause_of(guard), CauseFacts.of(cause_of(guard), guard)) for guard in guards]


def _cause(
    raw: CollectedLog,
    compile_id: str,
    place: FunctionPlace,
    failed: GuardsFailed,
    nearest: EntryHeld,
    guard: UnmetGuard,
) -> Cause:
    named = _named(raw, compile_id, place, cause_of(guard, failed.closure))
    fixed = fixing(raw, nearest.id, compile_id, named, guard)
    # A branch such as `if x.shape[0] == 8` fixes the size, and torch guards it like any specialized size; the advice is
    # that on conditions.
    by_branch = named.kind is CauseKind.SIZE and fixed is not None and fixed.kind is ConditionKind.CONDITION
    if by_branch:
        named = replace(named, kind=CauseKind.RANGE)
    cause = placed(named, guard, fixed, place, raw)
    cause = replace(cause, is_open=_is_open(raw, compile_id, cause, guard))
    facts = _facts(raw, compile_id, nearest, cause, guard, fixed)
    facts = replace(facts, is_keywords=_is_keywords(raw, place, cause), is_new_key=_is_new_key(raw, place, cause))
    advised = _advised(cause, facts)
    if _is_users(advised, raw):
        return advised
    return _in_library(advised, fixed)


def _is_users(cause: Cause, raw: CollectedLog) -> bool:
    """Whether a cause is at a line of the user's code, or at none."""
    return cause.file is None or owner_of(cause.file, raw.prefixes) is Owner.USER


def _in_library(cause: Cause, fixed: FixedSize | None) -> Cause:
    """Say which code of a library needs a number; the words for a user's line would speak of "your code"."""
    if fixed is not None and fixed.frame is not None and fixed.kind is ConditionKind.NUMBER and fixed.value is not None:
        return replace(cause, reason=f"{fixed.why} Each new value is a new graph.")
    reason = cause.reason.replace("Your code", "The library's code").replace("your code", "the library's code")
    return replace(cause, reason=reason)


def _is_keywords(raw: CollectedLog, place: FunctionPlace, cause: Cause) -> bool:
    """Whether a length is that of the keyword arguments which a function takes as `**options`."""
    name = cause.subject.removeprefix("len(").removesuffix(")")
    if cause.kind is not CauseKind.LENGTH or not name.isidentifier():
        return False
    return any_keywords(raw.listings.get(place.file, ""), place.function, place.begins or 0) == name


def _is_new_key(raw: CollectedLog, place: FunctionPlace, cause: Cause) -> bool:
    """Whether a dict's key is in no line of the file whose code asks for it, so that the code made it from data."""
    key, is_question, _ = cause.subject.partition(" in ")
    tree = parsed(raw.listings.get(cause.file or place.file, ""))
    if cause.kind is not CauseKind.KEY_ORDER or not is_question or tree is None or not literal_type(key):
        return False
    constants = {repr(each.value) for each in ast.walk(tree) if isinstance(each, ast.Constant)}
    return bool(constants) and key not in constants


def _facts(
    raw: CollectedLog, compile_id: str, nearest: EntryHeld, cause: Cause, guard: UnmetGuard, fixed: FixedSize | None
) -> CauseFacts:
    seen = raw.shapes.get(compile_id)
    facts = CauseFacts.of(cause, guard)
    return replace(
        facts,
        is_first=nearest.id.endswith("/0"),
        is_fixed=fixed is not None and fixed.value is not None,
        fixed_by=_fixed_by(fixed),
        is_number=fixed is not None and fixed.kind is ConditionKind.NUMBER,
        is_dynamic_off=seen is not None and seen.assume_static and not seen.automatic,
        is_listed_static=seen is not None and any(each in seen.listed_static for each in sources_of(guard.text)),
        is_weight=_is_weight(raw, nearest.id, guard),
        is_later_layer=is_later_layer(raw, compile_id),
    )


def _fixed_by(fixed: FixedSize | None) -> str:
    """Return what specialized a size, as in the keys `size/...` of advice/causes.yaml; empty if Python code did."""
    if fixed is None or fixed.value is None:
        return ""
    if fixed.frame is None:
        return "lowered"
    if fixed.kind in (ConditionKind.CHECK, ConditionKind.OPERATION):
        return "operation"
    return ""


def _is_weight(raw: CollectedLog, compile_id: str, guard: UnmetGuard) -> bool:
    seen, name = raw.shapes.get(compile_id), tensor_of(guard.text)
    if seen is None:
        return False
    return any(each.source == name and each.role != "input" for each in seen.tensors)


def _named(raw: CollectedLog, compile_id: str, place: FunctionPlace, cause: Cause) -> Cause:
    """Rename arguments of torch's wrappers as in the wrapped function, and `self` in optimizer code to `optimizer`."""
    made = raw.guard_places.get(f"{compile_id.rpartition('/')[0]}/0") or raw.guard_places.get(compile_id)
    name = argument_name(cause.subject, made.arguments if made else ())
    if "/torch/optim/" in place.file.replace("\\", "/"):
        name = optimizer_name(name)
    return replace(cause, subject=name)


def _folded(causes: tuple[Cause, ...], unlisted: int) -> tuple[Cause, ...]:
    """Keep the first few similar causes and count the rest; a cast of the model changes every parameter."""
    alike = grouped(causes, lambda cause: (cause.kind, cause.was, cause.now))
    largest = max(alike.values(), key=len, default=[])
    folded = []
    for members in alike.values():
        more = len(members) - _ALIKE
        if members is largest:  # the record names the first failed guards, and only counts the rest
            more += unlisted
        if more <= 0:
            folded += members
        else:
            folded.append(replace(members[0], others=more + _ALIKE - 1))
    return tuple(folded)


_MAY_OPEN = frozenset(
    (
        CauseKind.SIZE,
        CauseKind.ZERO_ONE,
        CauseKind.STRIDE,
        CauseKind.ARGUMENT_VALUE,
        CauseKind.ATTRIBUTE_VALUE,
        CauseKind.GLOBAL_VALUE,
        CauseKind.CLOSURE_VALUE,
        CauseKind.BREAK_RESULT,
    )
)


def _is_open(raw: CollectedLog, compile_id: str, cause: Cause, guard: UnmetGuard) -> bool:
    """Whether a size or number is dynamic in the new compilation."""
    sources = sources_of(guard.text)
    if cause.kind not in _MAY_OPEN or not sources:
        return False
    symbols = Symbols(raw, compile_id)
    source = symbols.source_of(sources[0])
    return symbols.symbol_of(source) is not None and symbols.fixed(source) is None


def _advised(cause: Cause, facts: CauseFacts) -> Cause:
    entry = advice_on_cause(cause.kind, case_of(facts)).about(cause.subject)
    advice = Advice(entry.before, entry.after, entry.switch, entry.risk)
    return replace(cause, fix=entry.fix, reason=entry.why, expected=entry.expected, advice=advice)


_CHECKED = re.compile(
    r"TENSOR_MATCH: check_tensor\((?P<source>.*?), \w+, DispatchKeySet\(.*?size=\[(?P<sizes>[^\]]*)\]"
)

# `int` refuses texts of thousands of digits, which a damaged log may have; a size has 19 at most.
_NUMBER = re.compile(r"\s*\d{1,19}\s*")
Sizes = tuple[int | None, ...]
"""The sizes of a tensor; None for a dynamic size."""


def dynamic_sizes(raw: CollectedLog, compile_id: str) -> dict[str, Sizes]:
    """Return the sizes of each tensor that a compilation guards, by source."""
    printed = raw.guards.get(compile_id)
    if not printed:
        return {}
    found = _CHECKED.finditer(text_of(printed.text))
    # A tensor of rank 0 has `size=[]`.
    return {match["source"]: tuple(map(_size, match["sizes"].split(","))) for match in found if match["sizes"].strip()}


def _size(text: str) -> int | None:
    if _NUMBER.fullmatch(text):
        return int(text)
    return None


_REASON = re.compile(r"(?P<entry>\S+/\d+): (?P<guard>.*)")
"""The first line of a reason (`get_guard_fail_reason`, _dynamo/guards.py, 2.11 to 2.15)."""


def failed_of(compile_id: str, reasons: Iterable[str], files: Iterable[str]) -> GuardsFailed | None:
    """Return the nearest cache entry with the guard that torch names; None if torch names no entry.

    Torch logs only the first failed guard of each entry, so the entry with the fewest cannot be known. The nearest is
    the one whose guard torch checks last: a call that differs in strides has that entry's dtype. On a tie, an entry
    for a size of 0 or 1 ranks last, because it serves no other size, and then the newest comes first.

    Args:
        compile_id: The new compilation.
        reasons: `0/0: <guard>  # <source line>  # <place> (HINT: ...)`, each with torch's stack below, newest first.
        files: The full names of files, of which torch writes the ends only.
    """
    found = [match for reason in reasons if (match := _REASON.match(reason))]
    if not found:
        return None
    if len(found) == 1:
        nearest = found[0]
    else:
        nearest = min(found, key=lambda match: _rank_of_guard(match["guard"]))
    code, _, comment = nearest["guard"].partition("  # ")
    frame, hint = read_comment(comment)
    guard = UnmetGuard(code.strip(), hint=hint)
    if frame:
        guard = replace(guard, stack=(completed(frame, files),))
    return GuardsFailed((EntryHeld(nearest["entry"], (guard,), number=1),), id=compile_id)


@lru_cache(maxsize=2000)  # each recompilation repeats the reasons of all earlier entries
def _rank_of_guard(text: str) -> tuple[int, bool]:
    code = text.partition("  # ")[0].strip()
    match = TENSOR.match(code)
    return -check_order(UnmetGuard(code)), match is not None and match["what"] == "size" and match["was"] in ("0", "1")
