"""Compare what a model returns in eager with a trial's edit and without it: an edit that changes it is no advice."""

import math
from collections.abc import Iterator

from ctrace.inspector.facts.scenario_facts import EagerResult, ResultPart
from ctrace.inspector.facts.session import Session

_EQUAL = 1e-5
"""How far the numbers of equal results are apart, relative to their norm: an edit may change rounding in float32."""
_OTHER = 1e-2
"""From where on results are others: bfloat16 keeps 8 bits, and rounds to 0.4 % of each element."""


def same_results(before: Session, after: Session) -> bool | None:
    """Whether the first eager calls of two runs returned the same; None: not known, as where they draw numbers."""
    others = {each.name: each.eager_result for each in after.scenarios}
    found: list[bool | None] = []
    for each in before.scenarios:
        old, new = each.eager_result, others.get(each.name)
        if old is not None and new is not None:
            found += _compared(old, new)
    if False in found:
        return False
    return True if found and None not in found else None


def _compared(old: EagerResult, new: EagerResult) -> Iterator[bool | None]:
    is_comparable = old.call == new.call and not (old.drew or new.drew)
    if not is_comparable or [each.where for each in old.parts] != [each.where for each in new.parts]:
        yield None
        return
    for one, other in zip(old.parts, new.parts, strict=True):
        # Python's numbers may be times or identities, which differ from run to run.
        if not (one.is_number and other.is_number):
            yield _is_same(one, other)


def _is_same(old: ResultPart, new: ResultPart) -> bool | None:
    if len(old.numbers) != len(new.numbers) or not old.numbers:
        return None
    if old.numbers == new.numbers:
        return True
    values, others = (list(map(_number, part.numbers)) for part in (old, new))
    if not all(map(math.isfinite, (*values, *others))):
        return False
    scale = max(map(abs, (*values, *others)))
    apart = max(abs(one - other) for one, other in zip(values, others, strict=True))
    if apart > _OTHER * scale:
        return False
    return True if apart <= _EQUAL * scale else None


def _number(text: str) -> float:
    """Read a number; what a damaged log has instead is no number."""
    try:
        return float(text)
    except ValueError:
        return math.nan
