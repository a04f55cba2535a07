"""Write foreign text into Python files, as a string or as a comment."""

import ast
from collections.abc import Iterable, Iterator

from ctrace.reports import format as fmt


def string(text: str) -> str:
    """Write any text as a one-line literal."""
    return ascii(text)


def block(text: str) -> str:
    """Write any text as a multi-line literal, which is easy to read and edit, or else as a one-line literal."""
    written = f"r'''{text}'''"
    try:
        is_same = ast.literal_eval(written) == text
    except (SyntaxError, ValueError, MemoryError):  # the text would end the literal early, or contains a zero byte
        is_same = False
    return written if is_same else string(text)


def comment(text: str, limit: int = 110) -> str:
    """Write any text as a one-line comment."""
    return f"# {fmt.one_line(text, limit)}"


def comments(lines: Iterable[str]) -> Iterator[str]:
    """Write lines as comments; skip empty ones."""
    for line in lines:
        if line:
            yield comment(line)
