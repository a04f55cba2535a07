"""Recompiles that every healthy model meets once, and why."""

from ctrace.inspector.dynamic import Sizes, dynamic_sizes
from ctrace.inspector.model import Cause
from ctrace.inspector.names import user_name
from ctrace.inspector.raw import Raw

_MODES = {
    "training_mode": "one graph for train() and one for eval() is normal",
    "grad_mode": "one graph with gradients and one without is normal",
    "autocast": "one graph with autocast and one without is normal",
}


def why_expected(raw: Raw, compile_id: str, nearest: str | None, causes: tuple[Cause, ...]) -> str:
    """Say why a recompile is normal; empty: it is not."""
    kinds = {cause.kind for cause in causes}
    if kinds and kinds <= set(_MODES):
        return "; ".join(_MODES[kind] for kind in sorted(kinds))
    if kinds == {"size"} and nearest is not None and _became_dynamic(raw, compile_id, nearest, causes):
        return "torch takes a size as a constant until it changes; now it may vary, and other sizes fit this graph"
    return ""


def _became_dynamic(raw: Raw, compile_id: str, nearest: str, causes: tuple[Cause, ...]) -> bool:
    """Whether each size that differed was a constant, and is none any more."""
    before, after = dynamic_sizes(raw, nearest), dynamic_sizes(raw, compile_id)
    varies = {(name, index) for name, index in _varying(after)} - set(_varying(before))
    subjects = {f"{name}.size({index})" for name, index in varies}
    return all(cause.subject in subjects and not cause.others for cause in causes)


def _varying(sizes: dict[str, Sizes]) -> list[tuple[str, int]]:
    return [
        (user_name(source), index) for source, each in sizes.items() for index, size in enumerate(each) if size is None
    ]
