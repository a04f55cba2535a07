"""Recompiles of a run, each with its causes seen from the nearest cache entry."""

from dataclasses import replace

from ctrace.inspector.advice import advice_on_cause
from ctrace.inspector.causecases import Facts, case_of
from ctrace.inspector.causes import cause_of, check_order
from ctrace.inspector.events import EntryHeld, Measured, UnmetGuard
from ctrace.inspector.model import Advice, Cause, Frame, Owner, Recompile
from ctrace.inspector.owners import owner_of
from ctrace.inspector.places import Place, place_of
from ctrace.inspector.raw import Raw

_EXPECTED = frozenset(("training_mode", "grad_mode", "autocast"))
"""Kinds that every model meets once: one graph for each mode."""


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
            place = place_of(raw, compile_id)
            causes = _causes(raw, compile_id, place)
            reason = next(iter(raw.reasons.get(compile_id, ())), "")
            expected = _is_expected(compile_id, causes)
            during = raw.during.get(compile_id)
            found.append(
                Recompile(
                    compilation=compile_id,
                    function=place.function,
                    file=place.file,
                    line=place.begins,
                    expected=expected,
                    causes=causes,
                    reason=reason,
                    scenario=during and during.scenario,
                    call=during and during.index,
                )
            )
        if made:
            earlier.add(frame)
    return tuple(found)


def _is_expected(compile_id: str, causes: tuple[Cause, ...]) -> bool:
    """The first change of a size makes it dynamic and is the price of dynamic shapes; modes come in pairs."""
    kinds = {cause.kind for cause in causes}
    return bool(kinds) and (kinds <= _EXPECTED or (kinds == {"size"} and compile_id.endswith("/1")))


def _causes(raw: Raw, compile_id: str, place: Place) -> tuple[Cause, ...]:
    failed = raw.guards.get(compile_id)
    held = failed.entries if failed else ()
    unmet = [entry for entry in held if entry.unmet]
    if failed is None or not unmet:
        gone = [_with_fix(Cause("identity", entry.invalid)) for entry in held if entry.invalid]
        return tuple(gone[:1] or map(_from_text, raw.reasons.get(compile_id, ())[:1]))
    nearest = min(unmet, key=_distance)
    line = _user_line(nearest.stack, raw)
    first = nearest.id.endswith("/0")
    causes = [
        _with_fix(_placed(cause_of(guard, line, failed.closure), place), guard, is_first=first)
        for guard in nearest.unmet
    ]
    return tuple(dict.fromkeys(causes))


def _distance(entry: EntryHeld) -> tuple[int, int]:
    """Say how far a call is from an entry: unmet guards, then how early torch met the first of them.

    Torch names only the first unmet guard of an entry. A call that got further through the checks of a tensor is
    nearer: one that differs in strides has the entry's dtype, one that differs in dtype may differ in all else. Entries
    are newest first, and the newer one wins a tie.
    """
    return len(entry.unmet), -max(map(check_order, entry.unmet))


def _placed(cause: Cause, place: Place) -> Cause:
    """A value that a break returned is fixed where the broken call is: that is where the function goes on."""
    return replace(cause, line=place.resumes_at) if cause.kind == "break_result" and place.resumes_at else cause


def _from_text(reason: str) -> Cause:
    """Read torch's own sentence, for a log without our hook: `0/0: <guard>   # <source line>`."""
    guard = reason.partition(": ")[2].partition("\n")[0].partition("  # ")[0].strip()
    return _with_fix(cause_of(UnmetGuard(guard), None), UnmetGuard(guard))


def _with_fix(cause: Cause, guard: UnmetGuard | None = None, *, is_first: bool = False) -> Cause:
    text, hint = (guard.text, guard.hint) if guard else ("", "")
    facts = Facts(cause.kind, cause.subject, cause.was, cause.now, text, hint, is_first=is_first)
    entry = advice_on_cause(cause.kind, case_of(facts)).about(cause.subject)
    advice = Advice(entry.before, entry.after, entry.switch, entry.risk)
    return replace(cause, fix=entry.fix, reason=entry.why, expected=entry.expected, advice=advice)


def _user_line(stack: tuple[Frame, ...], raw: Raw) -> int | None:
    mine = [frame.line for frame in stack if owner_of(frame.file, raw.prefixes) is Owner.USER]
    return mine[-1] if mine else None
