"""Stack traces as torch keeps them on graph nodes, and the user's lines in them."""

import re
from collections.abc import Iterable, Mapping

from ctrace.inspector.model import Owner
from ctrace.inspector.owners import owner_of

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')


def user_lines(stacks: Iterable[str], prefixes: Mapping[str, str]) -> tuple[str, ...]:
    """Take `file:line` of the innermost user frame of each stack, each once, in order."""
    lines: dict[str, None] = {}
    for stack in stacks:
        frames = [(match["file"], match["line"]) for match in _FRAME.finditer(stack)]
        for file, line in reversed(frames):
            if owner_of(file, prefixes) is Owner.USER:
                lines[f"{file}:{line}"] = None
                break
    return tuple(lines)
