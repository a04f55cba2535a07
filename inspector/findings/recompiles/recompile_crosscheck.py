"""Check that the failed guards that ctrace found include the guard that torch names first.

Torch's reasons come from `get_guard_fail_reason_helper` (_dynamo/guards.py, 2.11 to 2.13), which stops at the first
failed guard of an entry and writes `L['x']` as `x`.
"""

import ast
import re
from collections.abc import Iterator

from ctrace.inspector.facts.events.guard_events import EntryHeld
from ctrace.inspector.findings.guards.failed_guard_text import EXPECTED_TENSOR, PARAMETER_HINT, TENSOR
from ctrace.inspector.log.raw import Raw

_REASON = re.compile(r"\S+/(?P<entry>\d+): (?P<guard>.*)")
_LOCAL = re.compile(r"L\[\s*['\"](.*?)['\"]\s*\]")
_ONE_CHECK = {"dispatch key set": "device", "layout": "device"}
"""Torch compares dispatch keys, which include device and layout."""
_MARK = re.compile(r"_dynamo_\w+_indices|_dynamo_shape_ids|_dynamo_unbacked_bounds")
_SENTENCES = (
    ("GLOBAL_STATE changed: ", "state"),
    ("BACKEND_MATCH failure", "backend"),
    ("Duplicate tensor", "duplicate"),
)
_NO_VALUE = ("getattr failed on source ", "KeyError on ")


def unexplained(raw: Raw) -> Iterator[str]:
    """Yield a sentence for each recompilation for which ctrace did not find the failed guard that torch names."""
    for compile_id, failed in raw.unmet.items():
        reason = _REASON.match(next(iter(raw.reasons.get(compile_id, ())), ""))
        if reason is None:
            continue
        entry = next((each for each in failed.entries if each.id.rpartition("/")[2] == reason["entry"]), None)
        if entry is not None and not entry.invalid and not _is_found(reason["guard"], entry):
            yield (
                f"recompile {compile_id}: torch names `{_code(reason['guard'])}` of entry {entry.id} first, but the "
                f"guards that ctrace checked do not include it; its causes may be incomplete"
            )


def _is_found(guard: str, entry: EntryHeld) -> bool:
    about = _about(guard)
    found = {_about(each) for each in (*(unmet.text for unmet in entry.unmet), *entry.following)}
    return about is None or about in found or len(entry.unmet) < entry.number


def _about(guard: str) -> tuple[str, ...] | None:
    """Return one form of a guard for torch's text and ctrace's; None if the text is an error and not a guard."""
    text = _LOCAL.sub(r"\1", _code(guard))
    if match := TENSOR.match(text):
        return match["name"], _ONE_CHECK.get(match["what"], match["what"]), match["index"] or ""
    if match := EXPECTED_TENSOR.match(text):
        return match["name"], "type"
    if match := _MARK.search(text):
        return ("mark", match[0])
    for begin, kind in _SENTENCES:
        if text.startswith(begin):
            return (kind,)
    if text.startswith(_NO_VALUE):
        return ("missing",)
    if _TWO.fullmatch(text):
        return ("duplicate",)
    return _expression(text)


_TWO = re.compile(r"\S+ is not \S+(?<! None)")


def _expression(text: str) -> tuple[str, ...] | None:
    try:
        ast.parse(text.partition(", type=")[0], mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the text comes from an untrusted log
        return None
    return ("code", re.sub(r"\s", "", text))


def _code(guard: str) -> str:
    return guard.partition("  # ")[0].partition(PARAMETER_HINT)[0].strip()
