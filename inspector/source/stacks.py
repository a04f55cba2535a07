"""Parse the stack traces that torch prints: find the user's lines, and split the names of resume functions."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from msgspec.structs import replace

from ctrace.inspector.facts.findings import Frame, Owner
from ctrace.inspector.source.owners import owner_of

_PLACE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')

_FRAME = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+), in (?P<name>.*)')
_RESUME = re.compile(r"torch_dynamo_resume_in_(?P<name>.+)_at_(?P<line>\d+)$")
_CARETS = re.compile(r"    (?P<before> *)(?P<carets>[~^]+)$")


def user_lines(stacks: Iterable[str], prefixes: Mapping[str, str]) -> tuple[str, ...]:
    """Return `file:line` of the innermost user frame of each stack, without repetition, in order.

    A stack without a user frame belongs to a library's model: then the library's line counts. Torch's own lines never
    count.
    """
    known = tuple(prefixes.items())
    lines = (_line(stack, known) for stack in stacks)
    return tuple(dict.fromkeys(line for line in lines if line is not None))


@lru_cache(maxsize=20_000)
def _line(stack: str, prefixes: tuple[tuple[str, str], ...]) -> str | None:
    """Return the line for one stack; cached, because the nodes and kernels of a graph share most stacks."""
    by_owner: dict[Owner, str] = {}
    for match in _PLACE.finditer(stack):  # outermost first, so that the innermost of each owner stays
        by_owner[_owner(match["file"], prefixes)] = f"{match['file']}:{match['line']}"
    return by_owner.get(Owner.USER) or by_owner.get(Owner.LIBRARY)


@lru_cache(maxsize=20_000)
def _owner(file: str, prefixes: tuple[tuple[str, str], ...]) -> Owner:
    return owner_of(file, dict(prefixes))


def resumed(name: str) -> tuple[str, int | None]:
    """Split a resume function's name into the resumed function and the line; return any other name unchanged."""
    match = _RESUME.fullmatch(name)
    if match:
        return (match["name"], int(match["line"]))
    return (name, None)


def frames_in(text: str) -> tuple[Frame, ...]:
    """Read a traceback as Python formats it."""
    frames: list[Frame] = []
    for line in text.splitlines():
        if match := _FRAME.match(line):
            frames.append(Frame(match["file"], int(match["line"]), resumed(match["name"])[0]))
        elif frames and not frames[-1].source and line.startswith("    "):
            # A traceback's lines of source and of columns are both indented by four: the first one is the source.
            frames[-1] = replace(frames[-1], source=line.strip())
        elif frames and (carets := _CARETS.match(line)):
            begin = len(carets["before"])
            frames[-1] = replace(frames[-1], span=(begin, begin + len(carets["carets"])))
    return tuple(frames)
