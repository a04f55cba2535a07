"""Recompiles of a run, each with its causes seen from the nearest cache entry."""

import re
from dataclasses import replace

from ctrace.inspector.advice import advice_on_cause
from ctrace.inspector.causecases import Facts, case_of
from ctrace.inspector.causes import cause_of, check_order, source_of
from ctrace.inspector.dynamic import dynamic_sizes
from ctrace.inspector.events import Measured
from ctrace.inspector.expected import why_expected
from ctrace.inspector.guard_events import EntryHeld, GuardsFailed, UnmetGuard
from ctrace.inspector.guardtext import completed, read_comment
from ctrace.inspector.model import Advice, Cause, Frame, Owner, Recompile
from ctrace.inspector.names import user_name
from ctrace.inspector.owners import owner_of
from ctrace.inspector.places import Place, place_of
from ctrace.inspector.raw import Raw
from ctrace.inspector.symbols import Fixed, Symbols, fixed_at

_ALIKE = 3
"""Causes of one kind with the same values that are listed; the rest is counted."""


def is_limit(measured: Measured) -> bool:
    """Whether a failed compilation is Dynamo's refusal to compile a function once more."""
    return "recompile limit exceeded" in (measured.fail_reason or "")


def recompiles_of(raw: Raw) -> tuple[Recompile, ...]:
    """List every compilation beyond the first of its code object, but not the refused ones."""
    found = []
    earlier: set[str] = set()
    for compile_id in raw.seen:
        frame = compile_id.partition("/")[0]
        made = compile_id in raw.graphs or compile_id in raw.bytecode
        if made and frame in earlier:
            found.append(_recompile(raw, compile_id))
        if made:
            earlier.add(frame)
    return tuple(found)


def _recompile(raw: Raw, compile_id: str) -> Recompile:
    place = place_of(raw, compile_id)
    failed = raw.unmet.get(compile_id)
    nearest = _nearest(raw, failed) if failed else None
    seen_from = nearest.id if nearest else _named_first(raw, compile_id)
    causes = _causes(raw, compile_id, place, failed, nearest)
    why = why_expected(causes)
    during = raw.during.get(compile_id)
    return Recompile(
        compilation=compile_id,
        function=place.function,
        file=place.file,
        line=place.begins,
        expected=bool(why),
        causes=causes,
        reason=next(iter(raw.reasons.get(compile_id, ())), ""),
        why_expected=why,
        nearest=seen_from,
        distances={entry.id: entry.number for entry in failed.entries} if failed else {},
        scenario=during.scenario if during else None,
        call=during.index if during else None,
    )


def _named_first(raw: Raw, compile_id: str) -> str | None:
    """For a log without our hook: the entry that torch names first, which is the newest."""
    named = re.match(r"(\S+/\d+): ", next(iter(raw.reasons.get(compile_id, ())), ""))
    return named[1] if named else None


def _nearest(raw: Raw, failed: GuardsFailed) -> EntryHeld | None:
    """Take the entry with the fewest unmet guards; on a tie the more general one, then the newer one.

    Entries are newest first.
    """
    unmet = [entry for entry in failed.entries if entry.unmet]
    return min(unmet, key=lambda entry: _distance(raw, entry), default=None)


def _distance(raw: Raw, entry: EntryHeld) -> tuple[int, int, int]:
    """Say how far a call is from an entry.

    Torch itself names only the first unmet guard, and a log of torch's alone has no more: then a call that got further
    through the checks of a tensor is nearer, as one that differs in strides has the entry's dtype.
    """
    order = -max(map(check_order, entry.unmet)) if entry.number == 1 else 0
    sizes = dynamic_sizes(raw, entry.id).values()
    return entry.number, order, -sum(size is None for each in sizes for size in each)


def _causes(
    raw: Raw, compile_id: str, place: Place, failed: GuardsFailed | None, nearest: EntryHeld | None
) -> tuple[Cause, ...]:
    if failed is None or nearest is None:
        held = failed.entries if failed else ()
        gone = [_advised(Cause("identity", entry.invalid), UnmetGuard("")) for entry in held if entry.invalid]
        told = raw.reasons.get(compile_id, ())[:1]
        return tuple(gone[:1]) or tuple(_from_text(raw, compile_id, reason) for reason in told)
    causes = []
    for guard in nearest.unmet:
        source = source_of(guard.text)
        fixed = fixed_at(raw, nearest.id, source) if source else None
        cause = _placed(cause_of(guard, failed.closure), guard, fixed, place, raw)
        cause = replace(cause, is_open=_is_open(raw, compile_id, guard))
        causes.append(_advised(cause, guard, is_first=nearest.id.endswith("/0"), is_fixed=fixed is not None))
    return _folded(tuple(dict.fromkeys(causes)), nearest.number - len(nearest.unmet))


def _folded(causes: tuple[Cause, ...], unlisted: int) -> tuple[Cause, ...]:
    """Count causes that are alike beyond the first few: a model cast to another dtype differs in every parameter."""
    alike: dict[tuple[str, str | None, str | None], list[Cause]] = {}
    for cause in causes:
        alike.setdefault((cause.kind, cause.was, cause.now), []).append(cause)
    largest = max(alike.values(), key=len, default=[])
    folded = []
    for members in alike.values():
        more = len(members) - _ALIKE + (unlisted if members is largest else 0)
        folded += members if more <= 0 else [replace(members[0], others=more + _ALIKE - 1)]
    return tuple(folded)


_BY_FIRST_USE = frozenset(("size", "zero_one", "duck_shape", "stride", "dtype", "device", "requires_grad"))
"""Kinds whose guard is made where a tensor is first used, which is not what fixed its property."""


def _placed(cause: Cause, guard: UnmetGuard, fixed: Fixed | None, place: Place, raw: Raw) -> Cause:
    """Say which line fixed a value; what a break returned is fixed where the function goes on: at the broken call."""
    if cause.kind == "break_result" and place.resumes_at:
        return replace(cause, line=place.resumes_at, file=place.file)
    by_use = cause.kind in _BY_FIRST_USE
    frame = user_frame(guard.stack, raw) if not by_use else fixed.frame if fixed else None
    return cause if frame is None else replace(cause, line=frame.line, file=frame.file)


def user_frame(stack: tuple[Frame, ...], raw: Raw) -> Frame | None:
    """Find the innermost frame of the user's code."""
    return next((frame for frame in reversed(stack) if owner_of(frame.file, raw.prefixes) is Owner.USER), None)


def _from_text(raw: Raw, compile_id: str, reason: str) -> Cause:
    """Read torch's own sentence, for a log without our hook: `0/0: <guard>   # <source line>`."""
    code, _, comment = reason.partition(": ")[2].partition("\n")[0].partition("  # ")
    place, hint = read_comment(comment)
    guard = UnmetGuard(code.strip(), hint=hint)
    cause = replace(cause_of(guard), is_open=_is_open(raw, compile_id, guard))
    if place is not None and cause.kind not in _BY_FIRST_USE:
        known = completed(place, raw.files.values())
        cause = replace(cause, line=known.line, file=known.file)
    return _advised(cause, guard)


def _is_open(raw: Raw, compile_id: str, guard: UnmetGuard) -> bool:
    """Whether the new compilation has a symbol for a size or number, and kept it.

    Torch's own sentence says `x` for `L['x']` (`strip_local_scope`, guards.py:5120, 2.13), so names are compared.
    """
    told = source_of(guard.text)
    if told is None:
        return False
    symbols = Symbols(raw, compile_id)
    source = next((made.source for made in symbols.made() if user_name(made.source) == user_name(told)), told)
    return symbols.symbol_of(source) is not None and symbols.fixed(source) is None


def _advised(cause: Cause, guard: UnmetGuard, *, is_first: bool = False, is_fixed: bool = False) -> Cause:
    known = cause.kind, cause.subject, cause.was, cause.now, guard.text, guard.hint
    case = case_of(Facts(*known, is_first=is_first, is_fixed=is_fixed))
    entry = advice_on_cause(cause.kind, case).about(cause.subject)
    advice = Advice(entry.before, entry.after, entry.switch, entry.risk)
    return replace(cause, fix=entry.fix, reason=entry.why, expected=entry.expected, advice=advice)
