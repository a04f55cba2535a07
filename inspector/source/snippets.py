"""Lines of a source file around one of them, as they were when it ran."""

from msgspec import Struct

from ctrace.inspector.model.session import Session


class Snippet(Struct, frozen=True):
    """Lines of a file around one of them."""

    lines: tuple[tuple[int, str], ...]
    """Number and text."""
    line: int
    columns: tuple[int, int] | None
    """First column of `line` that is meant, and the one after the last; None: all of it."""


def snippet(
    session: Session, file: str, line: int, span: tuple[int, int] | None = None, around: int = 2
) -> Snippet | None:
    """Cut a line and those around it out of a file; None where its text is not known.

    `span` has columns of the line without its indentation.
    """
    lines = session.listings.get(file, "").splitlines()
    if not 0 < line <= len(lines):
        return None
    first = max(line - around, 1)
    shown = tuple(enumerate(lines[first - 1 : line + around], first))
    if span is None:
        return Snippet(shown, line, None)
    source = lines[line - 1]
    indent = len(source) - len(source.lstrip())
    return Snippet(shown, line, (span[0] + indent, span[1] + indent))
