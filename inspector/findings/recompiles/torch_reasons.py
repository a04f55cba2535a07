"""Read torch's own reasons for a recompilation as a failed guard of the nearest entry, for a log that torch wrote."""

import re
from collections.abc import Iterable
from functools import lru_cache

from ctrace.inspector.facts.events.guards import EntryHeld, GuardsFailed, UnmetGuard
from ctrace.inspector.findings.guards.failed_guard_text import TENSOR, check_order
from ctrace.inspector.findings.guards.printed_tree import completed, read_comment

_REASON = re.compile(r"(?P<entry>\S+/\d+): (?P<guard>.*)")
"""The first line of a reason (`get_guard_fail_reason`, _dynamo/guards.py, 2.11 to 2.15)."""


def failed_of(compile_id: str, reasons: Iterable[str], files: Iterable[str]) -> GuardsFailed | None:
    """Return the nearest cache entry with the guard that torch names; None if torch names no entry.

    Torch logs only the first failed guard of each entry, so the entry with the fewest cannot be known. The nearest is
    the one whose guard torch checks last: a call that differs in strides has that entry's dtype. On a tie, an entry
    for a size of 0 or 1 ranks last, because it serves no other size, and then the newest comes first.

    Args:
        compile_id: The new compilation.
        reasons: `0/0: <guard>  # <source line>  # <place> (HINT: ...)`, each with torch's stack below, newest first.
        files: The full names of files, of which torch writes the ends only.
    """
    found = [match for reason in reasons if (match := _REASON.match(reason))]
    if not found:
        return None
    nearest = found[0] if len(found) == 1 else min(found, key=lambda match: _distance(match["guard"]))
    code, _, comment = nearest["guard"].partition("  # ")
    frame, hint = read_comment(comment)
    guard = UnmetGuard(code.strip(), stack=(completed(frame, files),) if frame else (), hint=hint)
    return GuardsFailed((EntryHeld(nearest["entry"], (guard,), number=1),), id=compile_id)


@lru_cache(maxsize=2000)  # each recompilation repeats the reasons of all earlier entries
def _distance(text: str) -> tuple[int, bool]:
    code = text.partition("  # ")[0].strip()
    match = TENSOR.match(code)
    return -check_order(UnmetGuard(code)), match is not None and match["what"] == "size" and match["was"] in ("0", "1")
