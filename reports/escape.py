"""The one place that makes foreign text safe to write: on a terminal, and in each format of a report.

Whatever comes from a log, a saved run, a policy, a lock, source text or the user's program is foreign. Two kinds of
letters are dangerous. Some are obeyed instead of shown: control characters, those that change the direction of text
or take no room, and line separators. Others are commands to a CI system that reads what a step prints: `::error::` at
the start of a line (GitHub), `##[error]` and `##vso[` anywhere in it (GitHub, Azure), `##teamcity[` (TeamCity).

A `Document` is the text of a whole report, ready to be written. Only this module makes one, and the command line
writes nothing else, so that mypy finds the report that forgot to escape.
"""

import json
import math
import re
import unicodedata
from functools import lru_cache
from typing import Any, NewType

Document = NewType("Document", str)
"""A report that holds nothing to be obeyed."""

_HIDDEN = frozenset(("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"))
"""Unicode's categories of what is not shown: controls, formats, unassigned, private, surrogates, separators."""
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Letters and marks that count as shown but are not: joiners, fillers and variation selectors."""
_COMMAND = re.compile(r"^(?P<indent>[^\S\n]*):(?=:)|\#(?=\#\w*\[)", re.MULTILINE)
"""The first letter of what a CI system obeys. GitHub's runner skips white space before `::` (actions/runner,
ActionCommand.cs), and it and Azure's agent look for `##` in the whole line."""


def plain(text: str) -> str:
    """Make text of several lines safe for a terminal: what would be obeyed is shown as an escape."""
    return _shown_in(text, "\n\t")


def one(text: str) -> str:
    """Make a name safe for a terminal: as `plain`, and a line break or a tab in it is shown as an escape too."""
    return _shown_in(text, "")


def _shown_in(text: str, kept: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    hidden = {ord(letter): _shown(letter) for letter in set(text) if letter not in kept and is_hidden(letter)}
    return text.translate(hidden) if hidden else text


@lru_cache(maxsize=4096)
def is_hidden(letter: str) -> bool:
    """Whether a letter is not seen where it is written."""
    return unicodedata.category(letter) in _HIDDEN or _INVISIBLE.match(letter) is not None


def _shown(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")


def without_commands(text: str, colon: str = r"\x3a", hash_sign: str = r"\x23") -> str:
    """Break what a CI system would obey, by writing its first letter as an escape."""

    def broken(match: re.Match[str]) -> str:
        return hash_sign if match["indent"] is None else f"{match['indent']}{colon}"

    return _COMMAND.sub(broken, text)


def screen_document(text: str) -> Document:
    """Make a document of a screen, whose letters are safe already; it may hold rich's own styles."""
    return Document(without_commands(text))


def plain_document(text: str) -> Document:
    """Make a document of plain text, or of YAML, which has the same escapes."""
    return Document(without_commands(plain(text)))


def markup_document(text: str) -> Document:
    """Make a document of Markdown, SVG, XML or Graphviz's language: all of them know HTML's numbers of letters."""
    return Document(without_commands(plain(text), "&#58;", "&#35;"))


def commands_document(text: str) -> Document:
    """Make a document of commands to GitHub; whoever writes them escapes what they hold."""
    return Document(plain(text))


def json_document(data: object) -> Document:
    """Write JSON, indented, with a final newline; what is hidden becomes JSON's own escape, so it reads back the same.

    JSON has no number that is not finite; such a one becomes null, which is "not known" in every report.
    """
    try:
        text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(data), indent=2, ensure_ascii=False, allow_nan=False)
    return Document(f"{json_escaped(text)}\n")


def json_escaped(text: str) -> str:
    """Escape what JSON text has in its strings and should not show or be obeyed."""
    hidden = {ord(letter): json.dumps(letter)[1:-1] for letter in set(text) if letter != "\n" and is_hidden(letter)}
    return without_commands(text.translate(hidden) if hidden else text, r"\u003a", r"\u0023")


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _finite(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


_NOT_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What no XML 1.0 document can hold, not even escaped (https://www.w3.org/TR/xml/#charsets)."""


def xml_letters(text: str) -> str:
    """Show what is hidden, and what XML cannot hold, as an escape; markup is still to be escaped."""
    return _NOT_XML.sub(lambda match: _shown(match[0]), plain(text))


def graphviz_string(text: str) -> str:
    """Quote text for Graphviz, line breaks kept; an ampersand would begin a letter's number or name there."""
    escaped = plain(text).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
