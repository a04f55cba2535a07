"""Foreign text in Markdown: escaped, so that it is no markup, no HTML, no mention and no link."""

import re
from typing import NewType

from ctrace.reports import format as fmt

_APART = "&#8203;"
"""A space of no width: what GitHub would make a link, a mention or a reference of is not one any more."""
_LINKED = re.compile(r"(?i)(@|#|\bgh-|\bwww|:(?=//)|\b(?:mailto|xmpp):)")


Marked = NewType("Marked", str)
"""Markdown, in which foreign text is escaped; a cell of a table takes nothing else."""


def row(*cells: Marked) -> str:
    """Write a table's row."""
    return f"| {' | '.join(cells)} |"


def text(foreign: str) -> Marked:
    """Fold white space, and escape what Markdown, HTML or GitHub would read as more than text."""
    return Marked(_escaped(fmt.one_line(foreign)))


def _escaped(foreign: str) -> str:
    safe = foreign.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for letter in "\\`*_[]|~":
        safe = safe.replace(letter, f"\\{letter}")
    return _LINKED.sub(rf"\1{_APART}", safe)


def prose(foreign: str) -> Marked:
    """Escape text, but leave pairs of backticks what they are: code."""
    parts = fmt.one_line(foreign).split("`")
    if len(parts) % 2 == 0:
        return text(foreign)
    return Marked("".join(code(part) if number % 2 else _escaped(part) for number, part in enumerate(parts)))


def code(foreign: str) -> Marked:
    """Write a code span that its content cannot end; a bar would end the table's cell."""
    content = fmt.one_line(foreign)
    if not content:
        return Marked("")
    # A span has no way to write a bar after a backslash in a table, and none to escape what a CI system obeys.
    if "\\|" in content or "##" in content:
        return Marked(f"<code>{_escaped(content)}</code>")
    content = content.replace("|", "\\|")
    fence = "`"
    while fence in content:
        fence += "`"
    return Marked(f"{fence} {content} {fence}" if "`" in content else f"{fence}{content}{fence}")
