"""Decode our own entries about Inductor's passes and about attention; `dispatch.decode` lists the errors."""

from ctrace.inspector.facts.events.passes import AttentionFound, PassDone, Stacks
from ctrace.inspector.facts.passes import Attention, Pass, Pattern, Why
from ctrace.inspector.log.fields import Fields


def pass_done(compile_id: str, data: Fields) -> PassDone:
    """Decode a pass; if the pass changed nothing, its entry has only the first fields."""
    before = data.integer("before")
    patterns = data.maybe_objects("patterns")
    done = Pass(
        graph=compile_id,
        name=data.text("name"),
        stage=data.text("stage"),
        subsystem=data.maybe_text("subsystem") or "",
        within=data.texts("within"),
        before=before,
        after=before if data.is_null("after") else data.integer("after"),
        created=() if data.is_null("created") else data.pairs("created"),
        erased=() if data.is_null("erased") else data.pairs("erased"),
        created_ops=data.maybe_counts("created_ops"),
        erased_ops=data.maybe_counts("erased_ops"),
        retargeted=() if data.is_null("retargeted") else tuple(map(_retargeted, data.rows("retargeted"))),
        rewired=data.maybe_integer("rewired") or 0,
        moved=not data.is_null("moved") and data.flag("moved"),
        patterns=tuple(map(_pattern, patterns)),
        counters=data.maybe_counts("counters"),
        matches=data.maybe_integer("matches") or 0,
        counted=data.maybe_integer("counted") or 0,
    )
    return PassDone(done, {each.text("name"): each.texts("stacks") for each in patterns})


def _pattern(data: Fields) -> Pattern:
    return Pattern(data.text("name"), data.integer("times"), data.integer("nodes"), data.texts("ops"))


def _retargeted(row: list[object]) -> tuple[str, str, str]:
    match row:
        case [str(name), str(before), str(after)]:
            return name, before, after
        case _:
            msg = f"not a node with two ops: {row!r:.80}"
            raise TypeError(msg)


def attention_found(compile_id: str, data: Fields) -> AttentionFound:
    """Decode what the log says about each attention in a graph."""
    stage = data.text("stage")
    return AttentionFound(tuple(_place(compile_id, stage, each) for each in data.objects("places")))


def _place(compile_id: str, stage: str, data: Fields) -> tuple[Attention, Stacks, Stacks]:
    why = None if data.is_null("why") else data.object("why")
    found = Attention(
        graph=compile_id,
        stage=stage,
        call=data.maybe_text("call"),
        nodes=data.texts("nodes"),
        dtype=data.text("dtype"),
        device=data.text("device"),
        fused=data.texts("fused"),
        matched=data.maybe_text("matched"),
        counted=data.integer("counted"),
        axis=data.maybe_integer("axis"),
        certain=data.is_null("certain") or data.flag("certain"),
        trial=data.maybe_text("trial") or "",
        why=None if why is None else _why(why),
    )
    return found, data.texts("stacks"), () if why is None else why.texts("stacks")


def _why(data: Fields) -> Why:
    return Why(
        code=data.text("code"),
        pattern=data.maybe_text("pattern") or "",
        found=data.maybe_text("found") or "",
        wanted=data.maybe_text("wanted") or "",
        user=data.maybe_text("user") or "",
        argument=data.maybe_text("argument") or "",
        rank=data.maybe_integer("rank"),
        also=data.maybe_texts("also"),
    )
