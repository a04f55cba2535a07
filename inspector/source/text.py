"""Source text of the log: parse it (`parsed`), and show a line with the lines around it, as the file was when it ran
(`snippet`).

The text is a file from the log, or the single line that a frame quotes from another file.
"""

import ast
import difflib
import re
import warnings
from collections.abc import Iterator, Mapping
from functools import lru_cache

from msgspec import Struct

from ctrace.inspector.facts.findings import Frame

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""The exceptions of `ast` for text that is not Python, or that nests too deeply."""


@lru_cache(maxsize=64)
def parsed(text: str) -> ast.Module | None:
    """Parse a file; return None if it is not Python, or nests too deeply."""
    # Python warns of invalid escapes while it parses; a test run that turns warnings into errors would fail here.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text.removeprefix("\ufeff"))
        except _UNREADABLE:
            return None


def nodes_of(tree: ast.AST | None) -> Iterator[ast.AST]:
    """Walk a tree, as `ast.walk` does; yield nothing if there is none, such as of a text that does not parse."""
    if tree is not None:
        yield from ast.walk(tree)


def python_lines(text: str) -> list[str]:
    """Return the lines of a file as Python numbers them; `str.splitlines` also ends a line at a form feed."""
    return [line.rstrip("\r\n") for line in _with_ends(text)]


def _with_ends(text: str) -> list[str]:
    return _LINE.findall(text)


def replaced_lines(before: str, after: str) -> set[int]:
    """Return the lines of a text, from 1, that a change removes or replaces."""
    lines, other = _with_ends(before), _with_ends(after)
    first = _alike(lines, other)
    # What both end with is left out as well: matching long texts with many equal lines takes seconds.
    last = _alike(lines[first:][::-1], other[first:][::-1])
    parts = lines[first : len(lines) - last], other[first : len(other) - last]
    # Python would take lines that come often for noise, such as those with a bracket alone.
    codes = difflib.SequenceMatcher(None, *parts, autojunk=False).get_opcodes()
    return {first + line for tag, begin, end, _, _ in codes if tag != "equal" for line in range(begin + 1, end + 1)}


def _alike(one: list[str], other: list[str]) -> int:
    """Return how many lines two texts begin with alike."""
    return next(
        (at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), min(len(one), len(other))
    )


def any_keywords(text: str, function: str, line: int) -> str | None:
    """Return the parameter that takes any keyword arguments, `options` of `**options`, of the function at a line."""
    tree = parsed(text)
    for node in nodes_of(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function:
            begins = min(each.lineno for each in (node, *node.decorator_list))
            if begins <= line <= (node.end_lineno or node.lineno):
                if node.args.kwarg is not None:
                    return node.args.kwarg.arg
                return None
    return None


def as_program(line: str) -> str:
    """Return a line as a complete program: the head of a block gets a body, other lines stay unchanged."""
    text = line.strip()
    with_body = f"{text}\n    pass"
    if parsed(text) is None and parsed(with_body) is not None:
        return with_body
    return text


def text_around(listings: Mapping[str, str], frame: Frame) -> tuple[str, int]:
    """Return the text that contains a frame's line, and the line's number in that text, from 1.

    The text is the line alone if the log does not have the file: only torch wrote the log, or the function failed to
    compile.
    """
    text = listings.get(frame.file, "")
    if text:
        return (text, frame.line)
    return (as_program(frame.source), 1)


class Snippet(Struct, frozen=True):
    """A line of a file with the lines around it."""

    lines: tuple[tuple[int, str], ...]
    """Number and text."""
    line: int
    columns: tuple[int, int] | None
    """Columns of `line` to highlight, end exclusive; None: the whole line."""


def snippet(
    listings: Mapping[str, str], file: str, line: int, span: tuple[int, int] | None = None, around: int = 2
) -> Snippet | None:
    """Return a line of a file with the lines around it, or None if the file's text is not known.

    `span` has columns of the line without its indentation.
    """
    lines = python_lines(listings.get(file, ""))
    if not 0 < line <= len(lines):
        return None
    first = max(line - around, 1)
    shown = tuple(enumerate(lines[first - 1 : line + around], first))
    if span is None:
        return Snippet(shown, line, None)
    source = lines[line - 1]
    indent = len(source) - len(source.lstrip())
    return Snippet(shown, line, (span[0] + indent, span[1] + indent))
