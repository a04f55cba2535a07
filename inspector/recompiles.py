"""Recompiles of a run, each with its causes seen from the nearest cache entry."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ctrace.inspector.advice import advice
from ctrace.inspector.causes import cause_of
from ctrace.inspector.model import Cause, Owner, Recompile
from ctrace.inspector.owners import owner_of
from ctrace.inspector.places import Place, place_of
from ctrace.inspector.raw import Raw

_EXPECTED = frozenset(("training_mode", "grad_mode", "autocast"))
"""Kinds that every model meets once: one graph for each mode."""


def is_limit(metrics: Mapping[str, Any]) -> bool:
    """Whether a failed compilation is Dynamo's refusal to compile a function once more."""
    return "recompile limit exceeded" in str(metrics.get("fail_reason") or "")


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
            found.append(Recompile(compile_id, place.function, place.file, place.begins, expected, causes, reason))
        if made:
            earlier.add(frame)
    return tuple(found)


def _is_expected(compile_id: str, causes: tuple[Cause, ...]) -> bool:
    """The first change of a size makes it dynamic and is the price of dynamic shapes; modes come in pairs."""
    kinds = {cause.kind for cause in causes}
    return bool(kinds) and (kinds <= _EXPECTED or (kinds == {"size"} and compile_id.endswith("/1")))


def _causes(raw: Raw, compile_id: str, place: Place) -> tuple[Cause, ...]:
    failed = raw.unmet.get(compile_id)
    entries = failed.entries if failed else ()
    unmet = [entry for entry in entries if entry.get("unmet")]
    if failed is None or not unmet:
        gone = [_with_fix(Cause("identity", str(entry["invalid"]))) for entry in entries if entry.get("invalid")]
        return tuple(gone[:1] or map(_from_text, raw.reasons.get(compile_id, ())[:1]))
    nearest = min(unmet, key=lambda entry: len(entry["unmet"]))  # entries are newest first; the newer one on a tie
    line = _user_line(nearest.get("stack", []), raw)
    causes = [cause_of(guard, line, failed.closure) for guard in nearest["unmet"]]
    return tuple(dict.fromkeys(_with_fix(_placed(cause, place)) for cause in causes))


def _placed(cause: Cause, place: Place) -> Cause:
    """A value that a break returned is fixed where the broken call is: that is where the function goes on."""
    return replace(cause, line=place.resumes_at) if cause.kind == "break_result" and place.resumes_at else cause


def _from_text(reason: str) -> Cause:
    """Read torch's own sentence, for a log without our hook: `0/0: <guard>   # <source line>`."""
    guard = reason.partition(": ")[2].partition("\n")[0].partition("  # ")[0].strip()
    return _with_fix(cause_of({"guard": guard}, None))


def _with_fix(cause: Cause) -> Cause:
    fix = advice("causes").get(cause.kind, {}).get("fix", "")
    return replace(cause, fix=fix)


def _user_line(stack: list[dict[str, Any]], raw: Raw) -> int | None:
    mine = [frame["line"] for frame in stack if owner_of(frame["file"], raw.prefixes) is Owner.USER]
    return mine[-1] if mine else None
