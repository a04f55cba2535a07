"""Tables of numbers by kernel, which fit a screen: numbers are never cut, names in their middle."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from ctrace.reports import format as fmt
from ctrace.reports.terminal.parts import GAP

WIDE = 100
"""From how many columns on words are written out."""
_SHORTEST = 14
"""Characters of the first column, whatever else a table holds."""
_FIRST, _SECOND = 18, 15
"""Characters of the first column before the second gets more than these, which it gets in any case."""


def columned(width: int, columns: tuple[str, ...], rows: Sequence[tuple[str | Text, ...]]) -> Table:
    """Make a table; columns that begin with `>` hold numbers and are never cut, the first two of text are."""
    gap = GAP if width >= WIDE else 1
    made = Table(box=None, padding=(0, gap, 0, 0), header_style="dim", show_edge=False)
    for column in columns:
        made.add_column(
            column.lstrip(">"), no_wrap=True, overflow="ellipsis", justify="right" if column.startswith(">") else "left"
        )
    widths = [max(map(len, cells)) for cells in zip((name.lstrip(">") for name in columns), *rows, strict=True)]
    has_second = not columns[1].startswith(">")
    left = width - gap * len(columns) - sum(widths[2 if has_second else 1 :])
    second = min(widths[1], max(left - _FIRST, _SECOND)) if has_second else 0
    first = left - second
    for row in rows:
        rest = (fmt.one_line(str(row[1]), second), *row[2:]) if second else row[1:]
        made.add_row(cut(str(row[0]), max(first, _SHORTEST)), *rest)
    return made


def cut(name: str, limit: int) -> str:
    """Cut a name in its middle: those of kernels begin alike and end in a number."""
    end = limit // 3
    return name if len(name) <= limit else f"{name[: limit - end - 1]}…{name[-end:]}"


def micro(seconds: float | None) -> str:
    """Write a time of a kernel; nothing for one that is not known."""
    return "" if seconds is None else fmt.microseconds(seconds * 1e6)
