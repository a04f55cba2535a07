"""Decode our own entries about guards; `dispatch.decode` lists the errors."""

from ctrace.inspector.log.events import guards as ge
from ctrace.inspector.log.fields import Fields, frames
from ctrace.inspector.model.guards import Duration, GuardCost, KindCost, LeftOut, PartCost


def guards_failed(compile_id: str, data: Fields) -> ge.GuardsFailed:
    """Decode the comparison of a call with each cache entry."""
    entries = tuple(_entry(each) for each in data.objects("entries"))
    return ge.GuardsFailed(compile_id, entries, frozenset(data.maybe_texts("closure")), data.maybe_number("seconds"))


def _entry(data: Fields) -> ge.EntryHeld:
    unmet = tuple(map(_unmet, data.objects("unmet")))
    number, following = data.maybe_integer("number") or len(unmet), data.maybe_texts("following")
    return ge.EntryHeld(data.text("id"), unmet, number, data.maybe_text("invalid"), following)


def guards_placed(compile_id: str, data: Fields) -> ge.GuardsPlaced:
    """Decode the stacks at which guards were created."""
    known = dict(enumerate(frames(each.objects("frames")) for each in data.objects("stacks")))
    stacks = tuple(known[number] if number >= 0 else None for number in data.integers("lines"))
    left_out = tuple(
        LeftOut(each.text("kind"), each.text("why"), each.integer("number")) for each in data.maybe_objects("left_out")
    )
    return ge.GuardsPlaced(compile_id, stacks, left_out, data.maybe_text("object"), data.maybe_texts("arguments"))


def guards_timed(compile_id: str, data: Fields) -> ge.GuardsTimed:
    """Decode the measured cost of guards."""
    parts = tuple(
        PartCost(each.text("source"), each.integer("depth"), each.integer("guards"), _duration(each))
        for each in data.objects("parts")
    )
    kinds = tuple(
        KindCost(each.text("kind"), each.integer("number"), each.number("warm")) for each in data.objects("kinds")
    )
    cost = GuardCost(
        _duration(data),
        _duration(data.object("plain")),
        _duration(data.object("root")),
        data.number("epilogue"),
        parts,
        kinds,
    )
    return ge.GuardsTimed(compile_id, cost)


def _duration(data: Fields) -> Duration:
    return Duration(data.number("cold"), data.number("warm"))


def _unmet(data: Fields) -> ge.UnmetGuard:
    stack = frames(data.maybe_objects("stack"))
    now, was, hint = data.maybe_text("now"), data.maybe_text("was"), data.maybe_text("hint") or ""
    return ge.UnmetGuard(data.text("guard"), now, stack, hint, was)
