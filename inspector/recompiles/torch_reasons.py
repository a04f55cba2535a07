"""Read torch's own reasons for a recompilation as one failed guard of each cache entry, for a log that torch wrote."""

import re
from collections.abc import Iterable

from ctrace.inspector.guards.failed_guard_text import TENSOR, check_order
from ctrace.inspector.guards.printed_tree import completed, read_comment
from ctrace.inspector.log.events.guards import EntryHeld, GuardsFailed, UnmetGuard

_REASON = re.compile(r"(?P<entry>\S+/\d+): (?P<guard>.*)")
"""The first line of a reason (`get_guard_fail_reason`, _dynamo/guards.py, 2.11 to 2.15)."""


def failed_of(compile_id: str, reasons: Iterable[str], files: Iterable[str]) -> GuardsFailed | None:
    """Return the guards that torch names, one for each entry, newest entry first; None if torch names no entry.

    Args:
        compile_id: The new compilation.
        reasons: `0/0: <guard>  # <source line>  # <place> (HINT: ...)`, each with torch's stack below.
        files: The full names of files, of which torch writes the ends only.
    """
    entries = []
    for reason in reasons:
        match = _REASON.match(reason)
        if match is not None:
            entries.append(EntryHeld(match["entry"], (_guard(match["guard"], files),), number=1))
    return GuardsFailed(compile_id, tuple(entries)) if entries else None


def _guard(text: str, files: Iterable[str]) -> UnmetGuard:
    code, _, comment = text.partition("  # ")
    frame, hint = read_comment(comment)
    return UnmetGuard(code.strip(), stack=(completed(frame, files),) if frame else (), hint=hint)


def nearest_of(failed: GuardsFailed) -> EntryHeld:
    """Return the entry whose guard torch checks last: a call that differs in strides has that entry's dtype.

    Torch logs only the first failed guard of each entry, so the entry with the fewest cannot be known. On a tie, an
    entry for a size of 0 or 1 ranks last, because it serves no other size, and then the newest comes first.
    """
    if len(failed.entries) == 1:
        return failed.entries[0]
    return min(failed.entries, key=lambda entry: _distance(entry.unmet[0]))


def _distance(guard: UnmetGuard) -> tuple[int, bool]:
    match = TENSOR.match(guard.text)
    return -check_order(guard), match is not None and match["what"] == "size" and match["was"] in ("0", "1")
