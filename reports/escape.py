"""The one place that makes foreign text safe to write: on a terminal, and in each format of a report.

Text from a log, a saved run, a policy, a lock, source code or the user's program is foreign. Two kinds of letters are
dangerous. A terminal obeys some instead of showing them: control characters, letters that change the direction of
text or take no room, and line separators. A CI system that reads what a step prints takes others for commands:
`::error::` at the start of a line (GitHub), `##[error]` and `##vso[` anywhere in it (GitHub, Azure), `##teamcity[`
(TeamCity).

A `SafeText` is the text of a whole report, ready to write. Only this module makes one, and the command line writes
nothing else, so mypy finds a report that forgot to escape.
"""

import json
import math
import re
import unicodedata
from functools import lru_cache
from typing import Any

import msgspec


class SafeText(str):
    """A report for people, without any text that a terminal or a CI system obeys."""

    __slots__ = ()


class JsonText(SafeText):
    """A report in JSON: every letter may be an escape of its strings."""

    __slots__ = ()


class MarkupText(SafeText):
    """A report in SVG, XML or Graphviz's language: every letter may be a character reference."""

    __slots__ = ()


class FileText(SafeText):
    """A text that is UTF-8 by its format, whatever the terminal: an HTML page, a patch, a program."""

    __slots__ = ()


_HIDDEN = frozenset(("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"))
"""Unicode categories of invisible letters: controls, formats, unassigned, private, surrogates, separators."""
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Invisible letters in visible categories: joiners, fillers and variation selectors."""
_COMMAND = re.compile(r"^(?P<indent>[^\S\n]*):(?=:)|\#(?=\#\w*\[)", re.MULTILINE)
"""The first letter of a command to a CI system. GitHub's runner skips white space before `::` (actions/runner,
ActionCommand.cs), and it and Azure's agent look for `##` in the whole line."""


def plain(text: str) -> str:
    """Make text of several lines safe for a terminal: show hidden letters as escapes."""
    return _shown_in(text, "\n\t")


def one(text: str) -> str:
    """Make a name safe for a terminal: as `plain`, and show line breaks and tabs as escapes too."""
    return _shown_in(text, "")


def _shown_in(text: str, kept: str) -> str:
    # Most text is, and this is three times as fast as a look at its letters.
    if text.isascii() and text.isprintable():
        return text
    hidden = {ord(letter): _shown(letter) for letter in set(text) if letter not in kept and is_hidden(letter)}
    if hidden:
        return text.translate(hidden)
    return text


@lru_cache(maxsize=4096)
def is_hidden(letter: str) -> bool:
    """Whether a letter is invisible."""
    return unicodedata.category(letter) in _HIDDEN or _INVISIBLE.match(letter) is not None


def _shown(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")


def without_commands(text: str, colon: str = r"\x3a", hash_sign: str = r"\x23") -> str:
    """Make commands to a CI system harmless: escape their first letter."""
    if "::" not in text and "##" not in text:
        return text

    def broken(match: re.Match[str]) -> str:
        if match["indent"] is None:
            return hash_sign
        return f"{match['indent']}{colon}"

    return _COMMAND.sub(broken, text)


def screen_text(text: str) -> SafeText:
    """Make a document of a screen, whose text is safe already; it may contain rich's styles."""
    return SafeText(without_commands(text))


def plain_text(text: str) -> SafeText:
    """Make a document of plain text, or of YAML, which uses the same escapes."""
    return SafeText(without_commands(plain(text)))


def markdown_text(text: str) -> SafeText:
    """Make a document of Markdown."""
    return SafeText(_without_commands_of_markup(text))


def markup_text(text: str) -> SafeText:
    """Make a document of SVG, XML or Graphviz's language."""
    return MarkupText(_without_commands_of_markup(text))


def _without_commands_of_markup(text: str) -> str:
    """Escape commands as HTML's character references, which all markup knows."""
    return without_commands(plain(text), "&#58;", "&#35;")


def html_text(text: str) -> SafeText:
    """Make a document of an HTML page, whose text is escaped; a change would break the hashes of its scripts."""
    return FileText(text)


def commands_text(text: str) -> SafeText:
    """Make a document of GitHub commands; the caller escapes their contents."""
    return SafeText(plain(text))


def json_text(data: object) -> SafeText:
    """Write JSON, indented, with a final newline; hidden letters become JSON escapes, which read back the same.

    JSON has no infinity or NaN; they become null, which means "not known" in every report.
    """
    try:
        # Most data is finite, and is not walked through.
        text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(data), ensure_ascii=False, allow_nan=False)
    return JsonText(f"{json_escaped(_indented(text))}\n")


def _indented(text: str) -> str:
    """Indent JSON as `json.dumps` does, whose own indentation takes five times as long as all of this."""
    try:
        return msgspec.json.format(text, indent=2)
    except UnicodeEncodeError:  # half of a surrogate pair, in the text of a log
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)


def json_escaped(text: str) -> str:
    """Escape hidden letters and CI commands in the strings of JSON text."""
    hidden = {ord(letter): json_letter(letter) for letter in set(text) if letter != "\n" and is_hidden(letter)}
    return without_commands(text.translate(hidden) if hidden else text, r"\u003a", r"\u0023")


def json_letter(letter: str) -> str:
    """Return the escape of a letter in the strings of JSON."""
    return json.dumps(letter)[1:-1]


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _finite(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return None
    return data


_NOT_XML = "[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
"""Letters that no XML 1.0 document can contain, not even escaped (https://www.w3.org/TR/xml/#charsets). Compiled at its
first use: that takes 4 ms, and few reports are XML."""


def xml_letters(text: str) -> str:
    """Escape hidden letters and those that XML cannot contain; the caller still escapes markup."""
    return re.sub(_NOT_XML, lambda match: _shown(match[0]), plain(text))


def graphviz_string(text: str) -> str:
    """Quote text for Graphviz, with its line breaks; escape `&`, which starts a character reference there."""
    # Backslashes before quotes and line breaks, whose escapes have one.
    escaped = plain(text).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def patch_text(text: str) -> SafeText:
    """Make a document of a patch or a program; line ends stay as they are, hidden letters become escapes."""
    return FileText(without_commands(_shown_in(text, "\n\t\r")))
