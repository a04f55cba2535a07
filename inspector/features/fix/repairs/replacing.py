"""A change of files as replacements of whole lines, which is how SARIF and code review describe it."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping

from ctrace.inspector.facts.suggested_repair import Replacement
from ctrace.inspector.facts.trial import NewText

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
"""A line of a file as editors count lines; `str.splitlines` also ends one at a form feed."""


def replacements(base: Mapping[str, str], files: Iterable[NewText]) -> tuple[Replacement, ...]:
    """Return what changes in the files, from the top of each to its end."""
    return tuple(one for each in files for one in _of_file(each.file, base[each.file], each.text))


def _of_file(file: str, before: str, after: str) -> Iterator[Replacement]:
    old, new = _LINE.findall(before), _LINE.findall(after)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for tag, begin, end, first, last in matcher.get_opcodes():
        if tag != "equal":
            above = old[begin - 1] if begin else ""
            yield Replacement(file, begin + 1, end + 1, "".join(old[begin:end]), "".join(new[first:last]), before=above)
