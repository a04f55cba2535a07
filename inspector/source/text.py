"""Source as text that parses: a file that a log holds, or the one line that it tells of another."""

import ast
import warnings
from collections.abc import Mapping
from functools import lru_cache

from ctrace.inspector.model.findings import Frame

_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What `ast` raises for text that is no Python, or nests too deeply."""


@lru_cache(maxsize=64)
def parsed(text: str) -> ast.Module | None:
    """Parse a file; None: it is no Python, or nests too deeply."""
    # Python warns of odd escapes in what it parses; as errors, in a test run, they would hide the whole file.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text.removeprefix("\ufeff"))
        except _UNREADABLE:
            return None


def as_program(line: str) -> str:
    """Make a line a program of its own; the head of a block gets a body. What is neither stays as it is."""
    text = line.strip()
    with_body = f"{text}\n    pass"
    return with_body if parsed(text) is None and parsed(with_body) is not None else text


def text_around(listings: Mapping[str, str], frame: Frame) -> tuple[str, int]:
    """Return the text that a frame's line stands in, and its number there, from 1.

    It is the line alone where the log holds no file: one of torch alone, or of a function that failed to compile.
    """
    text = listings.get(frame.file, "")
    return (text, frame.line) if text else (as_program(frame.source), 1)
