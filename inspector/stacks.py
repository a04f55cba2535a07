"""Stack traces as torch keeps them on graph nodes, and the user's lines in them."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from ctrace.inspector.findings import Owner
from ctrace.inspector.owners import owner_of

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')


def user_lines(stacks: Iterable[str], prefixes: Mapping[str, str]) -> tuple[str, ...]:
    """Take `file:line` of the innermost user frame of each stack, each once, in order.

    A stack without one is of a library's model, and gives that model's line; torch's own lines are never taken.
    """
    known = tuple(prefixes.items())
    lines = (_line(stack, known) for stack in stacks)
    return tuple(dict.fromkeys(line for line in lines if line is not None))


@lru_cache(maxsize=20_000)
def _line(stack: str, prefixes: tuple[tuple[str, str], ...]) -> str | None:
    """Read one stack; the nodes and kernels of a graph share most of theirs."""
    by_owner: dict[Owner, str] = {}
    for match in _FRAME.finditer(stack):  # outermost first, so that the innermost of each owner stays
        by_owner[_owner(match["file"], prefixes)] = f"{match['file']}:{match['line']}"
    return by_owner.get(Owner.USER) or by_owner.get(Owner.LIBRARY)


@lru_cache(maxsize=20_000)
def _owner(file: str, prefixes: tuple[tuple[str, str], ...]) -> Owner:
    return owner_of(file, dict(prefixes))
