"""Foreign text inside Python files: as a string, as a comment, as an identifier."""

import ast
from collections.abc import Iterable, Iterator

from ctrace.reports import format as fmt


def string(text: str) -> str:
    """Write any text as a literal of one line."""
    return ascii(text)


def block(text: str) -> str:
    """Write any text as a literal over several lines, to be read and changed; where that cannot be, of one line."""
    written = f"r'''{text}'''"
    try:
        is_same = ast.literal_eval(written) == text
    except (SyntaxError, ValueError, MemoryError):  # the text ends the literal early, or holds a zero byte
        is_same = False
    return written if is_same else string(text)


def comment(text: str, limit: int = 110) -> str:
    """Write any text as one line of comment."""
    return f"# {fmt.one_line(text, limit)}"


def comments(lines: Iterable[str]) -> Iterator[str]:
    """Write lines of comment, without those that say nothing."""
    for line in lines:
        if line:
            yield comment(line)
