"""Escape foreign text for Markdown, so that it cannot become markup, HTML, a mention or a link."""

import re
from typing import NewType

from ctrace.reports import format as fmt

_APART = "&#8203;"
"""A zero-width space, which stops GitHub from making a link, a mention or a reference."""
_LINKED = re.compile(r"(?i)(@|#|\bgh-|\bwww|:(?=//)|\b(?:mailto|xmpp):)")


Marked = NewType("Marked", str)
"""Markdown with its foreign text escaped; table cells take nothing else."""


def row(*cells: Marked) -> str:
    """Write a table's row."""
    return f"| {' | '.join(cells)} |"


def text(foreign: str) -> Marked:
    """Fold white space, and escape everything that Markdown, HTML or GitHub would interpret."""
    return Marked(_escaped(fmt.one_line(foreign)))


def _escaped(foreign: str) -> str:
    safe = foreign.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for letter in "\\`*_[]|~":
        safe = safe.replace(letter, f"\\{letter}")
    return _LINKED.sub(rf"\1{_APART}", safe)


def prose(foreign: str) -> Marked:
    """Escape text, but keep code in backticks."""
    parts = fmt.one_line(foreign).split("`")
    if len(parts) % 2 == 0:
        return text(foreign)
    return Marked("".join(code(part) if number % 2 else _escaped(part) for number, part in enumerate(parts)))


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
