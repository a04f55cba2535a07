"""Find brackets, commas and names in the text of an expression; ignore those inside strings."""

import re
from collections.abc import Container

_STRING = r"""(?:[bBrRuU]{0,2}(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))"""
_SIGNS = re.compile(rf"{_STRING}|[()\[\]{{}},]")
_NAMES = re.compile(rf"{_STRING}|(?<![\w.])[^\W\d]\w*(?!\w|\s*=[^=])")
_PLAIN_NAMES = re.compile(r"(?<![\w.])[^\W\d]\w*")
"""The same for a text without strings and keywords, as most arguments are."""
_FLAT = r"""[^"'()\[\]{}]"""
_SHALLOW = re.compile(rf"[(\[{{](?:{_FLAT}++|[(\[{{]{_FLAT}*+[)\]}}])*+[)\]}}]")
"""Brackets with at most one more level inside and no strings, as most arguments are: the fast case of `closing`."""
_OPEN, _CLOSE = "([{", ")]}"


def pieces(text: str) -> tuple[str, ...]:
    """Split a text at the commas outside of brackets; drop an empty last piece."""
    found, depth, start = [], 0, 0
    for match in _SIGNS.finditer(text):
        sign = match[0]
        if sign in _OPEN:
            depth += 1
        elif sign in _CLOSE:
            depth -= 1
        elif sign == "," and not depth:
            found.append(text[start : match.start()].strip())
            start = match.end()
    last = text[start:].strip()
    return (*found, last) if last else tuple(found)


def closing(text: str, start: int) -> int:
    """Find the bracket that closes the one at `start`; return -1 if there is none."""
    if shallow := _SHALLOW.match(text, start):
        return shallow.end() - 1
    depth = 0
    for match in _SIGNS.finditer(text, start):
        if match[0] in _OPEN:
            depth += 1
        elif match[0] in _CLOSE:
            depth -= 1
            if not depth:
                return match.start()
    return -1


def left_open(text: str) -> int:
    """Return the number of opening brackets minus closing ones."""
    if '"' not in text and "'" not in text:
        return sum(map(text.count, _OPEN)) - sum(map(text.count, _CLOSE))
    return sum((match[0] in _OPEN) - (match[0] in _CLOSE) for match in _SIGNS.finditer(text))


def names_in(text: str, known: Container[str]) -> tuple[str, ...]:
    """List the known names that an expression reads, each once; ignore keywords and strings."""
    return tuple(dict.fromkeys([name for name in all_names_in(text) if name in known]))


def all_names_in(text: str) -> list[str]:
    """List the names that an expression may read; ignore keywords and strings."""
    is_plain = "=" not in text and '"' not in text and "'" not in text
    return (_PLAIN_NAMES if is_plain else _NAMES).findall(text)


def splits_at(text: str, sign: str) -> int:
    """Find a sign outside of brackets and strings; return -1 if there is none."""
    if sign not in text:
        return -1
    depth = 0
    for match in re.finditer(rf"{_STRING}|[()\[\]{{}}]|{re.escape(sign)}", text):
        found = match[0]
        if found in _OPEN:
            depth += 1
        elif found in _CLOSE:
            depth -= 1
        elif found == sign and not depth:
            return match.start()
    return -1
