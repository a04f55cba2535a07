"""Put hostile text into every string of a session, including strings of new fields."""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from msgspec import Struct, structs

UNSEEN = "\x1b[31m\x07\r\x9b1m\x85\u202e\u2066\u200e\u061c\u2028\u2029\u200b\u2060\ufeff\U000e0041\u3164\ufe0f\ud800\0"
"""Control characters, C1, directions, separators, zero width, tags, fillers, a lone surrogate."""
MARKUP = "</script><b>]]>--><![CDATA[\"'\\`|&amp;&#8203;[x](http://e.example)@you #1 {{ }} %0A${{ x }}"
COMMANDS = "\n::error::x\n  ::warning file=a::x\n##[error]x ##vso[task.logissue]x\n##teamcity[x]\r\n"
WIDE = "漢字e\u0301\u0301\u0301한국"


def poisons() -> dict[str, Callable[[str], str]]:
    """Return ways to poison a text; equal texts stay equal, so names still match."""
    return {
        "unseen": lambda text: f"{text[:1]}{UNSEEN}{text[1:]}",
        "markup": lambda text: f"{text}{MARKUP}",
        "commands": lambda text: f"::error::{text}{COMMANDS}",
        "wide": lambda text: f"{text}{WIDE}",
        "long": lambda text: f"{text}{'x' * 5_000}{WIDE * 100}",
    }


def poisoned(value: Any, spoil: Callable[[str], str]) -> Any:
    """Return a copy of a value with all strings poisoned, except enums, which come from ctrace."""
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        # A line number is checked where a log is read.
        file, colon, line = value.rpartition(":")
        return f"{spoil(file)}:{line}" if colon and line.isdecimal() else spoil(value)
    if isinstance(value, Mapping):
        return {poisoned(key, spoil): poisoned(each, spoil) for key, each in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        return type(value)(poisoned(each, spoil) for each in value)
    if isinstance(value, Struct):
        return structs.replace(value, **{name: poisoned(each, spoil) for name, each in structs.asdict(value).items()})
    return value
