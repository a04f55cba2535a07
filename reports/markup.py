"""Escape foreign text for Markdown, so that it cannot become markup, HTML, a mention or a link."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import NewType

from ctrace.reports import format as fmt

_APART = "&#8203;"
"""A zero-width space, which stops GitHub from making a link, a mention or a reference."""
_LINKED = re.compile(r"(?i)(@|#|\bgh-|\bwww|:(?=//)|\b(?:mailto|xmpp):)")


_MOST_NESTED = 8
"""The most backticks among which the end of a piece of code is looked for."""


Marked = NewType("Marked", str)
"""Markdown with its foreign text escaped; table cells take nothing else."""


def row(*cells: Marked) -> str:
    """Write a table's row."""
    return f"| {' | '.join(cells)} |"


def text(foreign: str) -> Marked:
    """Fold white space, and escape everything that Markdown, HTML or GitHub would interpret."""
    return Marked(_escaped(fmt.one_line(foreign)))


def _escaped(foreign: str) -> str:
    # First the ampersand, with which the others' references begin; last the links, whose stop is a reference, too.
    safe = foreign.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for letter in "\\`*_[]|~":
        safe = safe.replace(letter, f"\\{letter}")
    return _LINKED.sub(rf"\1{_APART}", safe)


def prose(foreign: str) -> Marked:
    """Escape text, but keep code in backticks."""
    return Marked("".join(code(part) if is_code else _escaped(part) for part, is_code in _spans(fmt.one_line(foreign))))


def _spans(line: str) -> Iterator[tuple[str, bool]]:
    """Split a line at its code in backticks; yield each part, and whether it is code."""
    at = 0
    while (begin := line.find("`", at)) >= 0 and (end := _end_of_code(line, begin + 1)) is not None:
        yield line[at:begin], False
        yield line[begin + 1 : end], True
        at = end + 1
    yield line[at:], False


def _end_of_code(line: str, begin: int) -> int | None:
    """Return the backtick that ends the code: code may have backticks too, as in an f-string, but closes its brackets.

    Before a space or at the end, a backtick ends the code in any case: code that is cut off leaves brackets open.
    """
    ends = list(islice((found.start() for found in re.compile("`").finditer(line, begin)), _MOST_NESTED))
    for at in ends:
        if line[at + 1 : at + 2].strip() == "" or _closes_its_brackets(line[begin:at]):
            return at
    return ends[0] if ends else None


def _closes_its_brackets(found: str) -> bool:
    return all(found.count(opened) == found.count(closed) for opened, closed in ("()", "[]", "{}"))


def code(foreign: str) -> Marked:
    """Write a code span that its content cannot close; escape bars, which would end the table cell."""
    content = fmt.one_line(foreign)
    if not content:
        return Marked("")
    # In a table, a span can neither write a bar after a backslash nor escape a command to a CI system.
    if "\\|" in content or "##" in content:
        return Marked(f"<code>{_escaped(content)}</code>")
    content = content.replace("|", "\\|")
    fence = "`"
    while fence in content:
        fence += "`"
    return Marked(f"{fence} {content} {fence}" if "`" in content else f"{fence}{content}{fence}")
