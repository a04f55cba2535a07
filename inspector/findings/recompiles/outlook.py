"""Predict from a run whether recompilations for a cause will stop."""

import re
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from ctrace.inspector.facts.findings import CacheUse, Cause, CauseKind, Recompile
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.trial import later_calls_of
from ctrace.inspector.knowledge.words.counting import count


class Outlook(StrEnum):
    """Whether a cause will lead to more recompilations."""

    SETTLES = "settles"
    """No more recompilations."""
    FINITE = "finite"
    """One graph for each value, and the number of values is limited."""
    DIVERGES = "diverges"
    """Each new value recompiles, until the limit is hit."""
    UNKNOWN = "unknown"
    """Not known: one recompilation is not enough to tell."""


class Prospect(Struct, frozen=True):
    """The outlook of a cause, and why."""

    outlook: Outlook
    why: str


_OF_MODULES = frozenset(
    (CauseKind.ATTRIBUTE_VALUE, CauseKind.LENGTH, CauseKind.TYPE, CauseKind.IDENTITY, CauseKind.KEY_ORDER)
)
"""Kinds of causes in which modules of one class may differ."""
NO_REASON = Cause(CauseKind.OTHER, "torch logs no reason")
"""Stands for a cause that is not known."""
_PAIRS = {
    CauseKind.TRAINING_MODE: "train() and eval() each have a graph now",
    CauseKind.GRAD_MODE: "gradients on and off each have a graph now",
    CauseKind.AUTOCAST: "autocast on and off each have a graph now",
    CauseKind.REQUIRES_GRAD: "both cases are compiled",
    CauseKind.NONE: "None and a value each have a graph now",
    CauseKind.DUCK_SHAPE: "the two sizes are independent in the new graph",
    CauseKind.ZERO_ONE: "sizes 0 and 1 cost at most one graph each",
}
_FINITE = {
    CauseKind.DTYPE: "one graph for each dtype",
    CauseKind.DEVICE: "one graph for each device",
    CauseKind.LAYOUT: "one graph for each layout",
    CauseKind.STRIDE: "one graph for each memory layout",
    CauseKind.DISPATCH_KEYS: "one graph for each kind of tensor",
    CauseKind.TYPE: "one graph for each type",
    CauseKind.GLOBAL_STATE: "one graph for each value of the setting",
    CauseKind.ALIASING: "one graph for each pattern of inputs that share memory",
    CauseKind.RANGE: "one graph for each outcome of the condition",
    CauseKind.KEY_ORDER: "one graph for each order of keys",
}


_COMPUTED = re.compile(r"^[^%]* [*/+-]+ [^%]*$")
"""A subject such as `(x.size(0) // 8)`, without a remainder."""


def prospect(session: Session, members: Sequence[tuple[Recompile, Cause]]) -> Prospect:
    """Judge a group of recompilations of one function for one cause."""
    kind = members[0][1].kind
    if kind is CauseKind.AUTOCAST and members[0][1].subject.endswith("_dtype"):
        return Prospect(Outlook.FINITE, "one graph for each autocast dtype")
    if all(recompile.shared_by for recompile, _ in members):
        return Prospect(Outlook.FINITE, "one graph for each of those that share this code")
    if kind in _PAIRS:
        return Prospect(Outlook.SETTLES, _PAIRS[kind])
    values = {value for _, cause in members for value in (cause.was, cause.now)}
    if values <= {"True", "False"} or values <= {"there", "missing"}:
        return Prospect(Outlook.SETTLES, "both values are compiled")
    if kind in _FINITE and not _is_number(members):
        return Prospect(Outlook.FINITE, _FINITE[kind])
    if members[-1][1].is_open:
        return Prospect(Outlook.SETTLES, "it is dynamic now, so the new graph takes other values")
    recompiles = [recompile for recompile, _ in members]
    if members[0][1] is NO_REASON:
        return Prospect(Outlook.UNKNOWN, NO_REASON.subject)
    of_module = kind in _OF_MODULES and "." in members[0][1].subject
    if of_module and (shared := _sharing(session, recompiles)):
        return Prospect(Outlook.FINITE, f"one graph for each of the {shared} modules that share this code")
    if len(members) < 2:
        return Prospect(Outlook.UNKNOWN, f"each new value recompiles{_later(session)}")
    return Prospect(Outlook.DIVERGES, _when_full(session, recompiles))


def _later(session: Session) -> str:
    """Say what later calls of the unchanged model did; empty if they were not made. They do not say for which cause."""
    later = later_calls_of(session.trials)
    if later is None:
        return ""
    if not later.recompiles:
        return f"; {later.calls} calls of the model do not recompile"
    limit = " and hit the recompile limit" if later.limit_hit else ""
    times = count(later.recompiles, "time")
    return f"; {later.calls} calls of the model recompile {times} in all{limit}, for this cause or another"


def _is_number(members: Sequence[tuple[Recompile, Cause]]) -> bool:
    """Whether the graphs need a number that is computed from sizes, such as `x.size(0) // 8`, instead of one of two
    outcomes; a remainder has a limited number of values.
    """
    causes = [cause for _, cause in members]
    values = [value or "" for cause in causes for value in (cause.was, cause.now)]
    computed = all(cause.kind is CauseKind.RANGE and _COMPUTED.search(cause.subject) for cause in causes)
    return computed and all(value.isdecimal() for value in values)


def _sharing(session: Session, recompiles: list[Recompile]) -> int:
    """Count the modules that share a cache; return 0 unless each has one entry and the cache refused no call."""
    frame = recompiles[0].compilation.partition("/")[0]
    if any(each.refused for each in session.limit.functions if each.frame == frame):
        return 0
    entries = [each.of_object for each in session.compilations if each.frame == frame and each.fail_type is None]
    if None not in entries and len(set(entries)) == len(entries):
        return len(entries)
    return 0


def _when_full(session: Session, recompiles: list[Recompile]) -> str:
    """Estimate when the cache will be full at this rate."""
    frame = recompiles[0].compilation.partition("/")[0]
    use = next((each for each in session.limit.functions if each.frame == frame), None)
    if use is None:
        return "each new value recompiles"
    if use.refused:
        return f"each new value recompiles; the limit of {use.of} was hit, and further values run eagerly"
    return f"each new value recompiles; {_limit_at(session, recompiles, use)}"


def _limit_at(session: Session, recompiles: list[Recompile], use: CacheUse) -> str:
    left = use.of - use.used
    call = _last_call(session, recompiles)
    if call is not None:
        return f"at this rate call {call + left + 1} hits the limit of {use.of}"
    if left:
        return f"{left} more fit before the limit of {use.of}"
    return f"the limit of {use.of} is reached"


def _last_call(session: Session, recompiles: list[Recompile]) -> int | None:
    """Return the number, from 1, of the last call that recompiled; None if a call before it did not recompile."""
    first = 0
    begins: dict[str, int] = {}
    for scenario in session.scenarios:
        begins[scenario.name] = first
        first += scenario.calls
    calls = [
        begins[each.scenario] + each.call + 1
        for each in recompiles
        if each.scenario is not None and each.call is not None and each.scenario in begins
    ]
    last = calls[-2:]
    in_a_row = len(calls) == len(recompiles) and len(last) == 2 and last[1] == last[0] + 1
    return last[1] if in_a_row else None
