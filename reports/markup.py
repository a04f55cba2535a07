"""Foreign text in Markdown: escaped, so that it is no markup, no HTML, no mention and no link."""

import re

from ctrace.reports import format as fmt

_APART = "&#8203;"
"""A space of no width: what GitHub would make a link, a mention or a reference of is not one any more."""
_LINKED = re.compile(r"(?i)(@|#|\bgh-|\bwww|:(?=//)|\b(?:mailto|xmpp):)")


def row(*cells: str) -> str:
    """Write a table's row."""
    return f"| {' | '.join(cells)} |"


def text(foreign: str) -> str:
    """Fold white space, and escape what Markdown, HTML or GitHub would read as more than text."""
    return _escaped(fmt.one_line(foreign))


def _escaped(foreign: str) -> str:
    safe = foreign.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for letter in "\\`*_[]|~":
        safe = safe.replace(letter, f"\\{letter}")
    return _LINKED.sub(rf"\1{_APART}", safe)


def prose(foreign: str) -> str:
    """Escape text, but leave pairs of backticks what they are: code."""
    parts = fmt.one_line(foreign).split("`")
    if len(parts) % 2 == 0:
        return text(foreign)
    return "".join(code(part) if number % 2 else _escaped(part) for number, part in enumerate(parts))


def code(foreign: str) -> str:
    """Write a code span that its content cannot end; a bar would end the table's cell."""
    content = fmt.one_line(foreign)
    if not content:
        return ""
    if "\\|" in content:  # a span has no way to write a bar after a backslash in a table
        return f"<code>{_escaped(content)}</code>"
    content = content.replace("|", "\\|")
    fence = "`"
    while fence in content:
        fence += "`"
    return f"{fence} {content} {fence}" if "`" in content else f"{fence}{content}{fence}"
