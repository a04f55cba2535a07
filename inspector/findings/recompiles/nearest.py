"""Find torch's reason for a recompilation if reports show other causes; torch checks the newest entry first."""

import re

from ctrace.inspector.facts.findings import Recompile

_REASON = re.compile(r"\s*\S+/(?P<entry>\d+): (?P<guard>.*?)(?:\s{2,}#.*)?", re.DOTALL)
_SIZE = re.compile(r"tensor '(?P<tensor>.+)' (?P<what>\w+) mismatch at index (?P<dim>\d+)")


def other_reason(each: Recompile) -> str | None:
    """Return torch's reason if it is about another cache entry than the nearest one, or None if not."""
    line = each.reason.partition("\n")[0]
    match = _REASON.fullmatch(line)
    if match is None or not match["guard"].strip() or not _is_elsewhere(each, match["entry"], match["guard"]):
        return None
    return match["guard"].strip()


def _is_elsewhere(each: Recompile, entry: str, guard: str) -> bool:
    """Whether the reason is about another entry, or about a guard of the same entry that is not among the causes."""
    if each.nearest is not None and each.nearest.rpartition("/")[2] != entry:
        return True
    size = _SIZE.match(guard)
    if size is None:
        return False
    index = f"({size['dim']})"
    return not any(
        size["tensor"] in cause.subject and cause.subject.endswith(index) for cause in each.causes
    ) and not any(cause.others for cause in each.causes)
