"""Report for each attention whether it runs as one fused kernel, and if not, the first obstacle."""

from collections.abc import Iterable
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.facts.passes import Attention, WhyNotFused
from ctrace.inspector.facts.session import Session
from ctrace.inspector.grouping import grouped
from ctrace.inspector.knowledge.advice import entries

_CALL = "scaled_dot_product_attention"
_UNKNOWN = ("math", "math_unasked")
"""Codes of obstacles that name no cause."""


class AttentionState(StrEnum):
    """What torch did with an attention."""

    FUSED = "fused"
    """A call that torch lowered to one of its fused ops."""
    NOT_FUSED = "not_fused"
    """A call that torch decomposes into matmuls and a softmax."""
    MATCHED = "matched"
    """Handwritten, and torch replaced it by a fused op."""
    MATCHED_NOT_FUSED = "matched_not_fused"
    """Handwritten, and torch replaced it by a call that has no fused op."""
    WRONG = "wrong"
    """Torch replaced it by code that computes different results."""
    NOT_MATCHED = "not_matched"
    """Handwritten, and torch left it unchanged."""


class AttentionReason(Struct, frozen=True):
    """A reason that follows from what torch did with an attention."""

    code: str
    text: str
    lines: tuple[()] = ()


class AttentionObstacle(Struct, frozen=True):
    """The first obstacle to a fused kernel, in words."""

    JSON: ClassVar[str] = "code=of.code text nearest_pattern=of.pattern|null_if_empty also=of.also lines=of.lines|lines"
    of: WhyNotFused
    text: str


class AttentionGroup(Struct, frozen=True):
    """The attentions of one graph with the same source lines and outcome."""

    JSON: ClassVar[str] = (
        "graph=attention.graph stage=attention.stage state by_hand times lines=attention.lines|lines "
        "nodes=attention.nodes dtype=attention.dtype device=attention.device fused=attention.fused "
        "pattern=attention.matched counted=attention.counted softmax_dimension=attention.axis why=reason fix"
    )
    attention: Attention
    times: int
    state: AttentionState
    sentence: str
    why: str = ""
    fix: str = ""
    title: str = ""
    """The obstacle, in a few words."""
    by_hand: bool = False
    reason: AttentionReason | AttentionObstacle | None = None

    @property
    def is_slow(self) -> bool:
        """Whether the attention could run faster or computes wrong results."""
        return self.state not in (AttentionState.FUSED, AttentionState.MATCHED)

    @property
    def can_be_fixed(self) -> bool:
        """Whether a fix is known; torch does not always say why it has no fused kernel."""
        # Without a cause, every fix would be a guess.
        why = self.attention.why
        known = why is not None and why.code not in _UNKNOWN
        return self.state in (AttentionState.NOT_FUSED, AttentionState.NOT_MATCHED) and known


class AttentionKind(Struct, frozen=True):
    """Attentions of all graphs with the same outcome for the same reason."""

    sentence: str
    title: str
    times: int
    graphs: tuple[str, ...]
    lines: tuple[str, ...]


def answers(session: Session, graph: str | None = None) -> tuple[AttentionGroup, ...]:
    """Return the outcomes for the attentions of one graph, or of all graphs; merge equal outcomes."""
    alike: dict[tuple[object, ...], list[Attention]] = {}
    for each in session.attention:
        if graph in (None, each.graph):
            alike.setdefault(_likeness(each), []).append(each)
    return tuple(_answer(found[0], len(found)) for found in alike.values())


def _likeness(each: Attention) -> tuple[object, ...]:
    return (
        each.graph,
        each.stage,
        each.call is None,
        each.lines,
        each.fused,
        each.matched,
        each.is_wrong,
        each.certain,
        each.why,
    )


def state_of(each: Attention) -> AttentionState:
    """Return what torch did with an attention."""
    # Wrong results matter more than whether they come from a fused op.
    if each.is_wrong:
        return AttentionState.WRONG
    if each.matched is not None:
        if each.fused:
            return AttentionState.MATCHED
        return AttentionState.MATCHED_NOT_FUSED
    if each.call is not None:
        if each.fused:
            return AttentionState.FUSED
        return AttentionState.NOT_FUSED
    return AttentionState.NOT_MATCHED


def answer_of(each: Attention) -> AttentionGroup:
    """Describe one attention."""
    return _answer(each, 1)


def _answer(each: Attention, times: int) -> AttentionGroup:
    state = state_of(each)
    why, fix = _why(each, state)
    sentence = _SENTENCES[state] if each.certain else _DOUBTFUL
    return AttentionGroup(
        each,
        times,
        state,
        sentence.replace("{ops}", _ops(each)),
        why=why,
        fix=fix,
        title=_title(each, state),
        by_hand=each.call is None,
        reason=_reason(each, state, why),
    )


def _reason(each: Attention, state: AttentionState, why: str) -> AttentionReason | AttentionObstacle | None:
    if each.why is not None:
        return AttentionObstacle(each.why, why)
    if why:
        return AttentionReason(str(state), why)
    return None


_SENTENCES = {
    AttentionState.FUSED: f"call to {_CALL} became {{ops}}",
    AttentionState.NOT_FUSED: f"call to {_CALL} has no fused kernel here",
    AttentionState.MATCHED: "handwritten attention was replaced by {ops}",
    AttentionState.MATCHED_NOT_FUSED: f"handwritten attention was replaced by {_CALL}, which has no fused kernel here",
    AttentionState.WRONG: "handwritten attention was replaced by code that computes wrong results",
    AttentionState.NOT_MATCHED: "handwritten attention is not fused",
}

_DOUBTFUL = "a softmax between two matmuls, probably attention, is not fused"


def _ops(each: Attention) -> str:
    # The op of the backward follows from that of the forward, and would only repeat its name.
    forward = [op for op in each.fused if not op.endswith("_backward")]
    return ", ".join(op.removeprefix("aten.") for op in forward)


def _why(each: Attention, state: AttentionState) -> tuple[str, str]:
    if state is AttentionState.WRONG:
        return _what_differs(each), _AGAINST_WRONG
    if state is AttentionState.MATCHED_NOT_FUSED:
        entry = entries("attention")["math"]
        return entry.why, entry.fix
    if each.why is None or state in (AttentionState.FUSED, AttentionState.MATCHED):
        return "", ""
    known = entries("attention").get(each.why.code)
    if known is None:  # a newer ctrace wrote the log
        return f"({each.why.code})", ""
    return _filled(known.why, each.why) + _also(each.why), _filled(known.fix, each.why)


_AGAINST_WRONG = (
    f"Avoid torch's patterns: call {_CALL} on (batch, heads, length, width) if that is what you mean, otherwise set "
    "`torch._inductor.config.pattern_matcher = False`."
)


def _what_differs(each: Attention) -> str:
    """Describe the evidence that the results are wrong: from a trial, or else from the softmax's dimension."""
    pattern = f"Torch's pattern {each.matched}"
    if each.trial == "untried":
        return f"{_over(each)}, but torch's replacement runs over the last: {pattern} does not check the dimension."
    differs = "results of a different shape" if each.trial == "shape" else "different results"
    cause = "" if each.axis in (None, -1) else f" {_over(each)}, torch's runs over the last."
    return (
        f"{pattern} does not check all numbers (dimensions, sizes). On random tensors, torch's replacement gave "
        f"{differs}.{cause}"
    )


def _over(each: Attention) -> str:
    return f"The softmax runs over dimension {each.axis}"


def _title(each: Attention, state: AttentionState) -> str:
    if each.why is None or state not in (AttentionState.NOT_FUSED, AttentionState.NOT_MATCHED):
        return ""
    entry = entries("attention").get(each.why.code)
    if entry:
        return entry.title
    return each.why.code


def _filled(text: str, why: WhyNotFused) -> str:
    values = {
        "pattern": why.pattern,
        "found": why.found,
        "wanted": why.wanted,
        "user": why.user,
        "argument": why.argument,
        "rank": str(why.rank),
    }
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value or "something else")
    return text


def _also(why: WhyNotFused) -> str:
    titles = [known.title for code in why.also if (known := entries("attention").get(code)) and code != why.code]
    if titles:
        return f" Other obstacles: {', '.join(titles)}."
    return ""


def unfused(session: Session) -> tuple[AttentionGroup, ...]:
    """Return the attentions that need a change; leave out code that may not be attention."""
    # A softmax between two matmuls may be something else, such as a router, so it is no finding.
    return tuple(each for each in answers(session) if each.is_slow and each.attention.certain)


def kinds(found: Iterable[AttentionGroup]) -> tuple[AttentionKind, ...]:
    """Group answers that read the same, such as those for the layers of a model."""
    alike = grouped(found, lambda each: (each.sentence, each.title))
    return tuple(
        AttentionKind(
            *words,
            sum(each.times for each in same),
            tuple(dict.fromkeys(each.attention.graph for each in same)),
            tuple(dict.fromkeys(line for each in same for line in each.attention.lines)),
        )
        for words, same in alike.items()
    )


def wrong(session: Session) -> tuple[AttentionGroup, ...]:
    """Return the attentions that torch replaced by code with different results."""
    return tuple(each for each in answers(session) if each.state is AttentionState.WRONG)


def short(found: Iterable[AttentionGroup]) -> str:
    """Return how many attentions are fused: `attention fused`, `2 of 3 attentions fused`."""
    certain = [each for each in found if each.attention.certain]
    if any(each.state is AttentionState.WRONG for each in certain):
        return "attention replaced wrongly"
    total = sum(each.times for each in certain)
    fused = sum(each.times for each in certain if not each.is_slow)
    if not total:
        return ""
    if total == 1:
        if fused:
            return "attention fused"
        return "attention not fused"
    if fused == total:
        return f"{total} attentions fused"
    return f"{fused or 'none'} of {total} attentions fused"
