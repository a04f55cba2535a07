"""Find conditions on data-dependent sizes that torch needs at compile time and cannot decide."""

import re

from ctrace.inspector.facts.findings import Frame
from ctrace.inspector.facts.shapes import Condition, ConditionKind
from ctrace.inspector.log.raw import Raw
from ctrace.inspector.source.constructs import construct_at
from ctrace.inspector.source.owners import user_frame_or_last
from ctrace.inspector.source.stacks import frames_in
from ctrace.inspector.source.text import text_around

_UNKNOWN = re.compile(
    r"Could not (?:guard on|extract specialized integer from) data-dependent expression (?P<text>.+?) \("
)
"""`ShapeEnv._make_data_dependent_error` (2.13, fx/experimental/symbolic_shapes.py:7400)."""
_TRACEBACK = re.compile(r"User (?:Stack \(most recent call last\)|code traceback):\n(?P<frames>(?: .*\n?)+)")


def data_conditions(raw: Raw, compile_id: str) -> tuple[Condition, ...]:
    """Find the conditions in torch's messages about a failed compilation and about breaks."""
    measured = raw.metrics.get(compile_id)
    texts = [measured.fail_reason] if measured and measured.fail_reason else []
    texts += [reported.text for reported in raw.breaks if reported.id == compile_id]
    found = (_data_condition(raw, text) for text in texts)
    return tuple(dict.fromkeys(each for each in found if each is not None))


def _data_condition(raw: Raw, text: str) -> Condition | None:
    unknown, traceback = _UNKNOWN.search(text), _TRACEBACK.search(text)
    if unknown is None:
        return None
    frames = frames_in(traceback["frames"]) if traceback else ()
    if not frames:
        return Condition(unknown["text"], f"Torch needs to know whether {unknown['text']}.", ConditionKind.CONDITION)
    frame = user_frame_or_last(frames, raw.prefixes)
    condition = _condition(raw, frame)
    why = f"Torch needs to know whether {condition or unknown['text']}, which depends on data."
    return Condition(condition or unknown["text"], why, ConditionKind.CONDITION, frame.file, frame.line, condition)


def _condition(raw: Raw, frame: Frame) -> str:
    """Return the user's whole condition from the code; empty if the line has none."""
    text, line = text_around(raw.listings, frame)
    found = construct_at(text, line, frame.span, branches=True)
    if found.span is None:
        return ""
    begin, end = found.span
    condition = text.splitlines()[line - 1].strip()[begin:end]
    return condition if any(sign in condition for sign in "<>=") else ""
