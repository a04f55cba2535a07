"""What became of each attention, in words: one fused kernel or not, and the first thing in the way."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ctrace.inspector.advice import entries
from ctrace.inspector.model.passes import Attention, Why
from ctrace.inspector.model.session import Session

_CALL = "scaled_dot_product_attention"
_UNKNOWN = ("math", "math_unasked")
"""Codes that say nothing of the cause."""


class State(StrEnum):
    """What became of an attention."""

    FUSED = "fused"
    """A call that became one of torch's fused ops."""
    NOT_FUSED = "not_fused"
    """A call that torch computes from products and a softmax."""
    MATCHED = "matched"
    """Written by hand, and replaced by a fused op."""
    MATCHED_NOT_FUSED = "matched_not_fused"
    """Written by hand, replaced by a call for which torch has no fused op."""
    WRONG = "wrong"
    """Replaced by something that computes something else."""
    NOT_MATCHED = "not_matched"
    """Written by hand, and left as it is."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The attentions of one graph that stand at the same lines and had the same fate."""

    attention: Attention
    times: int
    state: State
    sentence: str
    why: str = ""
    fix: str = ""
    title: str = ""
    """What is in the way, in a few words."""

    @property
    def is_slow(self) -> bool:
        """Whether there is something to do about it."""
        return self.state not in (State.FUSED, State.MATCHED)

    @property
    def can_be_fixed(self) -> bool:
        """Whether it is known what to change; torch does not always say why it has no fused kernel."""
        why = self.attention.why
        known = why is not None and why.code not in _UNKNOWN
        return self.state in (State.NOT_FUSED, State.NOT_MATCHED) and known


@dataclass(frozen=True, slots=True)
class Kind:
    """Attentions with one fate for one reason, wherever they are."""

    sentence: str
    title: str
    times: int
    graphs: tuple[str, ...]
    lines: tuple[str, ...]


def answers(session: Session, graph: str | None = None) -> tuple[Answer, ...]:
    """Tell of each attention of one graph, or of all, in their order; those that are alike are told once."""
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


def state_of(each: Attention) -> State:
    """Tell what became of an attention."""
    if each.is_wrong:
        return State.WRONG
    if each.matched is not None:
        return State.MATCHED if each.fused else State.MATCHED_NOT_FUSED
    if each.call is not None:
        return State.FUSED if each.fused else State.NOT_FUSED
    return State.NOT_MATCHED


def answer_of(each: Attention) -> Answer:
    """Tell of one attention."""
    return _answer(each, 1)


def _answer(each: Attention, times: int) -> Answer:
    state = state_of(each)
    why, fix = _why(each, state)
    sentence = _SENTENCES[state] if each.certain else _DOUBTFUL
    return Answer(each, times, state, sentence.replace("{ops}", _ops(each)), why, fix, _title(each, state))


_SENTENCES = {
    State.FUSED: f"a call of {_CALL} became {{ops}}",
    State.NOT_FUSED: f"a call of {_CALL} has no fused kernel here",
    State.MATCHED: "attention written by hand was replaced by {ops}",
    State.MATCHED_NOT_FUSED: f"attention written by hand was taken for {_CALL}, which has no fused kernel here",
    State.WRONG: "attention written by hand was replaced by something else: the results are wrong",
    State.NOT_MATCHED: "attention written by hand is not fused",
}

_DOUBTFUL = "a softmax between two products, as attention has it, is not fused"


def _ops(each: Attention) -> str:
    forward = [op for op in each.fused if not op.endswith("_backward")]
    return ", ".join(op.removeprefix("aten.") for op in forward)


def _why(each: Attention, state: State) -> tuple[str, str]:
    if state is State.WRONG:
        return _what_differs(each), _AGAINST_WRONG
    if state is State.MATCHED_NOT_FUSED:
        entry = entries("attention")["math"]
        return entry.why, entry.fix
    if each.why is None or state in (State.FUSED, State.MATCHED):
        return "", ""
    known = entries("attention").get(each.why.code)
    if known is None:  # a newer ctrace wrote the log
        return f"({each.why.code})", ""
    return _filled(known.why, each.why) + _also(each.why), _filled(known.fix, each.why)


_AGAINST_WRONG = (
    f"Write it so that none of torch's patterns matches: call {_CALL} on (batch, heads, length, width) if that is what "
    "you mean, else set `torch._inductor.config.pattern_matcher = False`."
)


def _what_differs(each: Attention) -> str:
    """Say how it is known that the results are wrong: a trial, or at least the softmax's dimension."""
    pattern = f"Torch's pattern {each.matched}"
    if each.trial == "untried":
        return f"{_over(each)}, but what torch put in its place runs over the last: {pattern} leaves the number open."
    differs = "results of another shape" if each.trial == "shape" else "other results"
    cause = "" if each.axis in (None, -1) else f" {_over(each)}, and torch's over the last."
    return (
        f"{pattern} leaves the numbers open (dimensions, sizes). On random tensors, what torch put in place gave "
        f"{differs}.{cause}"
    )


def _over(each: Attention) -> str:
    return f"The softmax runs over dimension {each.axis}"


def _title(each: Attention, state: State) -> str:
    if each.why is None or state not in (State.NOT_FUSED, State.NOT_MATCHED):
        return ""
    entry = entries("attention").get(each.why.code)
    return entry.title if entry else each.why.code


def _filled(text: str, why: Why) -> str:
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


def _also(why: Why) -> str:
    titles = [known.title for code in why.also if (known := entries("attention").get(code)) and code != why.code]
    return f" Also in the way: {', '.join(titles)}." if titles else ""


def unfused(session: Session) -> tuple[Answer, ...]:
    """Tell of the attentions that something should be done about; what may be none is left out."""
    return tuple(each for each in answers(session) if each.is_slow and each.attention.certain)


def kinds(found: Iterable[Answer]) -> tuple[Kind, ...]:
    """Put together what is told in the same words, such as the layers of a model."""
    alike: dict[tuple[str, str], list[Answer]] = {}
    for each in found:
        alike.setdefault((each.sentence, each.title), []).append(each)
    return tuple(
        Kind(
            *words,
            sum(each.times for each in same),
            tuple(dict.fromkeys(each.attention.graph for each in same)),
            tuple(dict.fromkeys(line for each in same for line in each.attention.lines)),
        )
        for words, same in alike.items()
    )


def wrong(session: Session) -> tuple[Answer, ...]:
    """Tell of the attentions that torch replaced by something that computes something else."""
    return tuple(each for each in answers(session) if each.state is State.WRONG)


def short(found: Iterable[Answer]) -> str:
    """Count the fused and the other attentions of a graph: `attention fused`, `2 of 3 attentions fused`."""
    told = [each for each in found if each.attention.certain]
    if any(each.state is State.WRONG for each in told):
        return "attention replaced wrongly"
    every = sum(each.times for each in told)
    good = sum(each.times for each in told if not each.is_slow)
    if not every:
        return ""
    if every == 1:
        return "attention fused" if good else "attention not fused"
    return f"{every} attentions fused" if good == every else f"{good or 'none'} of {every} attentions fused"
