"""Tables that fit the screen: numbers are never cut, names are cut in the middle."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from ctrace.reports import format as fmt
from ctrace.reports.terminal.widgets import GAP

WIDE = 100
"""The screen width from which words are not abbreviated."""
_SHORTEST = 14
"""The least width of the first column."""
_FIRST, _SECOND = 18, 15
"""Least widths of the first two columns; the second gets more only after the first has its width."""


def columned(width: int, columns: tuple[str, ...], rows: Sequence[tuple[str | Text, ...]]) -> Table:
    """Return a table. Columns marked with `>` hold numbers and are never cut; the first two text columns may be cut."""
    gap = GAP if width >= WIDE else 1
    table = Table(box=None, padding=(0, gap, 0, 0), header_style="dim", show_edge=False)
    for column in columns:
        table.add_column(
            column.lstrip(">"), no_wrap=True, overflow="ellipsis", justify="right" if column.startswith(">") else "left"
        )
    widths = [max(map(len, cells)) for cells in zip((name.lstrip(">") for name in columns), *rows, strict=True)]
    has_second = not columns[1].startswith(">")
    left = width - gap * len(columns) - sum(widths[2 if has_second else 1 :])
    second = min(widths[1], max(left - _FIRST, _SECOND)) if has_second else 0
    first = left - second
    for row in rows:
        rest = (fmt.one_line(str(row[1]), second), *row[2:]) if second else row[1:]
        table.add_row(cut(str(row[0]), max(first, _SHORTEST)), *rest)
    return table


def cut(name: str, limit: int) -> str:
    """Cut a name in the middle: kernel names start alike and end in a number."""
    end = limit // 3
    return name if len(name) <= limit else f"{name[: limit - end - 1]}…{name[-end:]}"


def micro(seconds: float | None) -> str:
    """Write a kernel's time; empty if it is not known."""
    return "" if seconds is None else fmt.microseconds(seconds * 1e6)
