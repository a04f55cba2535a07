"""Recompiles that every healthy model meets once, and why."""

from ctrace.inspector.model.findings import Cause

_MODES = frozenset(("training_mode", "grad_mode", "autocast"))
_MADE_ONCE = frozenset(("length", "key_order"))
"""Kinds of which advice/causes.yaml calls some cases expected: an optimizer's first step, a cache that is filled."""
_OPEN = "The first change of a value compiles once more, with the value left open."


def why_expected(causes: tuple[Cause, ...]) -> str:
    """Say why a recompile is normal; empty: it is not, for one of its causes is not."""
    reasons = [_why(cause) for cause in causes]
    return " ".join(dict.fromkeys(reasons)) if all(reasons) else ""


def _why(cause: Cause) -> str:
    if cause.is_open:
        return cause.expected or _OPEN
    is_made_on_first_call = (cause.kind == "none" and "." in cause.subject) or _is_missing(cause)
    if cause.kind in _MODES or cause.kind in _MADE_ONCE or is_made_on_first_call:
        return cause.expected
    return ""


def _is_missing(cause: Cause) -> bool:
    """Whether an attribute was not there yet."""
    return cause.kind == "attribute_value" and cause.was == "missing"
