"""Tell requirements from targets on the command line."""

import re
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from ctrace.inspector.errors import TargetError

_MARKS = ("==", ">=", "~=", "@")
_FORM = re.compile(r"(?P<name>[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)\s*(?:\[[\w.,\s-]*\])?\s*(?P<rest>(?:==|>=|~=|@).+)")
_SINGLE = re.compile(r"[A-Za-z0-9][\w.-]*=[\d.]+\S*")
_BARE = re.compile(r"[A-Za-z0-9][\w-]*")
"""The name of a package alone; a model is a file, or has a dot or a colon."""


class Requirement(Struct, frozen=True):
    """A requirement as pip takes it."""

    text: str
    name: str
    """Normalized: `Torch_Geometric` is `torch-geometric`."""


def normalized(name: str) -> str:
    """Return the name of a package as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parted(words: Iterable[str]) -> tuple[list[Requirement], list[str]]:
    """Part words into requirements, which have one of `==`, `>=`, `~=` and `@`, and targets.

    Raises:
        TargetError: a requirement cannot be read, or a package is named twice or without a version.
    """
    requirements, targets = list[Requirement](), list[str]()
    for word in words:
        if any(mark in word for mark in _MARKS):
            requirements.append(requirement(word))
        elif _SINGLE.fullmatch(word):
            raise TargetError(f"{word} is neither a requirement nor a model", f"write {word.replace('=', '==', 1)}")
        elif _BARE.fullmatch(word) and not Path(word).exists():
            raise TargetError(f"{word} names no version", f"write one as for pip: {word}==VERSION")
        else:
            targets.append(word)
    names = [each.name for each in requirements]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise TargetError(f"{twice} is named twice", "name each package once")
    return requirements, targets


def requirement(text: str) -> Requirement:
    """Read a requirement.

    Raises:
        TargetError: it has no name or no version.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None or any(letter.isspace() for letter in match["rest"].removeprefix("@").strip()):
        raise TargetError(f"{text} is no requirement", "write one as for pip: torch==2.15.0")
    return Requirement(text.strip(), normalized(match["name"]))
