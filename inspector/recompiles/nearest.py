"""Why torch says that it compiled again, beside the cause that is shown: it asks the newest cache entry first."""

import re

from ctrace.inspector.model.findings import Recompile

_SAID = re.compile(r"\s*\S+/(?P<entry>\d+): (?P<guard>.*?)(?:\s{2,}#.*)?", re.DOTALL)
_SIZE = re.compile(r"tensor '(?P<tensor>.+)' (?P<what>\w+) mismatch at index (?P<dim>\d+)")


def other_reason(each: Recompile) -> str | None:
    """Return torch's reason where it comes from another cache entry than the nearest, in torch's words; else None."""
    line = each.reason.partition("\n")[0]
    match = _SAID.fullmatch(line)
    if match is None or not match["guard"].strip() or not _is_elsewhere(each, match["entry"], match["guard"]):
        return None
    return match["guard"].strip()


def _is_elsewhere(each: Recompile, entry: str, guard: str) -> bool:
    """Whether it is about another entry; of the same one, whether no cause that is shown is what it names."""
    if each.nearest is not None and each.nearest.rpartition("/")[2] != entry:
        return True
    size = _SIZE.match(guard)
    if size is None:
        return False
    index = f"({size['dim']})"
    return not any(
        size["tensor"] in cause.subject and cause.subject.endswith(index) for cause in each.causes
    ) and not any(cause.others for cause in each.causes)
