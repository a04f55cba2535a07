"""Stack traces as torch keeps them on graph nodes, and the user's lines in them."""

import re
from collections.abc import Iterable, Mapping

from ctrace.inspector.findings import Owner
from ctrace.inspector.owners import owner_of

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')


def user_lines(stacks: Iterable[str], prefixes: Mapping[str, str]) -> tuple[str, ...]:
    """Take `file:line` of the innermost user frame of each stack, each once, in order.

    A stack without one is of a library's model, and gives that model's line; torch's own lines are never taken.
    """
    lines = (_line(stack, prefixes) for stack in stacks)
    return tuple(dict.fromkeys(line for line in lines if line is not None))


def _line(stack: str, prefixes: Mapping[str, str]) -> str | None:
    by_owner: dict[Owner, str] = {}
    for match in _FRAME.finditer(stack):  # outermost first, so that the innermost of each owner stays
        by_owner[owner_of(match["file"], prefixes)] = f"{match['file']}:{match['line']}"
    return by_owner.get(Owner.USER) or by_owner.get(Owner.LIBRARY)
