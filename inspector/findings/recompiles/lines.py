"""Find the line of the user's code that specialized on a value that changed."""

import re

from msgspec.structs import replace

from ctrace.inspector.facts.events.guards import UnmetGuard
from ctrace.inspector.facts.findings import TENSOR_CAUSES, Cause, CauseKind
from ctrace.inspector.facts.shapes import ConditionKind
from ctrace.inspector.findings.functions import Place
from ctrace.inspector.findings.guards.failed_guard_text import sources_of
from ctrace.inspector.findings.recompiles.deferred import first_computed
from ctrace.inspector.findings.shapes.symbols import Fixed, Symbols
from ctrace.inspector.log.raw import Raw
from ctrace.inspector.source.names import user_name
from ctrace.inspector.source.owners import user_frame


def fixing(raw: Raw, nearest: str, compile_id: str, cause: Cause, guard: UnmetGuard) -> Fixed | None:
    """Find the user's line that specialized on a size or number, in the nearest cache entry or in the new graph."""
    sources = sources_of(guard.text)
    if cause.kind in (CauseKind.RANGE, CauseKind.ZERO_ONE) and len(sources) > 0:
        symbols = Symbols(raw, nearest)
        found = _condition(symbols, tuple(map(symbols.source_of, sources)), cause, guard)
        return found if cause.kind is CauseKind.RANGE else None
    if not sources:
        return None
    known = (Symbols(raw, each) for each in (nearest, compile_id))
    before, after = (each.fixed(each.source_of(sources[0])) for each in known)
    return before or (after if after and after.kind is not ConditionKind.CONDITION and after.frame else None)


def _condition(symbols: Symbols, sources: tuple[str, ...], cause: Cause, guard: UnmetGuard) -> Fixed | None:
    """Find the condition that the call violates: by its text, or by bounds that the new value exceeds."""
    conditions = [each for source in sources for each in symbols.conditions(source) if each.frame is not None]
    text = _folded(user_name(guard.text))
    same_text = [each for each in conditions if _folded(each.condition) == text]
    outside = [each for each in conditions if _is_outside(each, cause.now)]
    unbounded = [each for each in conditions if each.low is None and each.high is None]
    return next(iter([*same_text, *outside, *unbounded]), None)


def _folded(condition: str) -> str:
    return re.sub(r"[\s()]", "", condition)


def _is_outside(condition: Fixed, value: str | None) -> bool:
    number = int(value) if value and re.fullmatch(r"-?\d+", value) else None
    if number is None:
        return False
    return (condition.low is not None and number < condition.low) or (
        condition.high is not None and number > condition.high
    )


def placed(cause: Cause, guard: UnmetGuard, fixed: Fixed | None, place: Place, raw: Raw) -> Cause:
    """Add the line that specialized on the value; for the result of a call that broke, add the line of that call."""
    if cause.kind is CauseKind.BREAK_RESULT and place.resumes_at:
        return replace(cause, line=place.resumes_at, file=place.file)
    # Torch creates the guards of a tensor at its first use; that line did not specialize on the property.
    by_use = None if cause.kind in TENSOR_CAUSES else user_frame(guard.stack, raw.prefixes)
    if by_use is not None:
        torch, text = str(raw.environment.get("torch", "")), raw.listings.get(by_use.file, "")
        by_use = first_computed(cause, by_use, torch, text)
    frame = by_use or (fixed.frame if fixed else None)
    return cause if frame is None else replace(cause, line=frame.line, file=frame.file)
