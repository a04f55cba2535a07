"""Show a line of a source file with the lines around it, as the file was when it ran."""

from collections.abc import Mapping

from msgspec import Struct


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
    lines = listings.get(file, "").splitlines()
    if not 0 < line <= len(lines):
        return None
    first = max(line - around, 1)
    shown = tuple(enumerate(lines[first - 1 : line + around], first))
    if span is None:
        return Snippet(shown, line, None)
    source = lines[line - 1]
    indent = len(source) - len(source.lstrip())
    return Snippet(shown, line, (span[0] + indent, span[1] + indent))
