"""Screen of `ctrace collectives`: what a rank communicates in all, then each collective in order."""

from collections.abc import Iterator
from itertools import groupby

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.features.cluster.collective_view import Collective, CollectivesDocument
from ctrace.reports import format as fmt
from ctrace.reports.terminal.widgets import GAP, capped, fix, hanging, item, more, section, table

# Chosen: one screen; equal collectives in a row count as one.
_MOST_ROWS = 24
# Chosen: each takes two lines or three.
_MOST_FINDINGS = 8
# Chosen: the width from which the last two columns do not push the others out.
_WIDE = 110
_TITLES = ("", "op", "group", "bytes", "line", "from", "where", "hidden by")
_OP = _TITLES.index("op")
_PLACE = _TITLES.index("line")
_LEAST = {"where": 12, "from": 14, "group": 8, "op": 16, "line": 12}
"""Which columns a narrow screen shortens, in this order, and to how many letters."""


def collectives_screen(document: CollectivesDocument, width: int, *, all_of_it: bool) -> Iterator[RenderableType]:
    """Show totals, findings, and the collectives in order; equal ones in a row are one line."""
    yield section(_title(document))
    for note in document.notes:
        yield hanging(note)
    if document.cut_after is not None:
        yield hanging(f"Recorded until {fmt.count(document.cut_after, 'call')}; the program went on.", "yellow")
    yield from _findings(document)
    runs = [(first, sum(1 for _ in same)) for first, same in groupby(document.collectives, _row_of)]
    if not runs:
        return
    shown = capped(runs, _MOST_ROWS, all_of_it=all_of_it)
    is_wide = width >= _WIDE
    titles = _TITLES if is_wide else _TITLES[: len(_TITLES) - 2]
    rows = table(*titles)
    for cells in _fitted([_numbered(*run)[: len(titles)] for run in shown], titles, width - 1):
        rows.add_row(*cells)
    yield item(rows)
    yield from more(len(runs), "line", "--all", most=len(shown))


def _numbered(cells: tuple[str, ...], times: int) -> tuple[str, ...]:
    if times > 1:
        return (cells[0], f"{cells[1]} × {times}", *cells[2:])
    return cells


def _fitted(rows: list[tuple[str, ...]], titles: tuple[str, ...], width: int) -> Iterator[list[str]]:
    """Shorten cells to the width of the screen: bytes stay whole, and of a place the line."""
    rows = [tuple(fmt.one_line(cell, 60) for cell in row) for row in rows]
    sizes = [max(map(fmt.width, column)) for column in zip(titles, *rows, strict=True)]
    excess = sum(sizes) + GAP * len(sizes) - width
    for title, least in _LEAST.items():
        if title in titles and excess > 0:
            column = titles.index(title)
            taken = min(excess, max(0, sizes[column] - least))
            sizes[column] -= taken
            excess -= taken
    for row in rows:
        cells = [fmt.cut(cell, size) for cell, size in zip(row, sizes, strict=True)]
        # `all_reduce_coales… × 12` and `trainer_of_mod…:81` keep the number that tells them apart.
        cells[_OP] = _cut_before(row[_OP], " × ", sizes[_OP])
        cells[_PLACE] = _cut_before(row[_PLACE], ":", sizes[_PLACE])
        yield cells


def _cut_before(cell: str, sign: str, size: int) -> str:
    """Shorten a name, and keep the number that a sign separates from it."""
    name, _, number = cell.rpartition(sign)
    if not number.isdecimal() or not name:
        return fmt.cut(cell, size)
    return fmt.cut(name, max(size - len(sign + number), 1)) + sign + number


def _title(document: CollectivesDocument) -> str:
    rank = "" if document.rank is None else f" of rank {document.rank} of {document.world}"
    found = document.collectives
    if not found:
        return f"No collectives{rank}"
    moved = sum(each.bytes or 0 for each in found)
    unknown = sum(each.bytes is None for each in found)
    partly = fmt.framed(", ", unknown or None, " of unknown size")
    of_graphs = sum(each.compiled for each in found)
    return (
        f"{fmt.count(len(found), 'collective')}{rank}: {fmt.memory(moved)} in all{partly}, "
        f"{of_graphs} in graphs, {len(found) - of_graphs} outside"
    )


def _row_of(each: Collective) -> tuple[str, ...]:
    """Return the cells of a collective."""
    place = "" if each.file is None else f"{fmt.file_name(each.file)}:{each.line}"
    size = fmt.framed(" (", each.group_size, ")")
    names = fmt.framed(", ", fmt.some(len(each.bucket), "parameter"))
    change = fmt.framed(" ", each.change)
    direction = "bwd" if each.part == "backward" else "fwd"
    moved = fmt.known(each.bytes, fmt.memory)
    where = f"{each.graph} {each.starts_at}" if each.compiled else "eager"
    group, origin = f"{fmt.one_line(each.group, 20)}{size}", f"{each.origin}{change}{names}"
    return direction, each.op, group, moved, place, origin, where, _hidden(each)


def _hidden(each: Collective) -> str:
    if each.between is None:
        return ""
    if each.between:
        return fmt.count(each.between, "op")
    return "nothing"


def _findings(document: CollectivesDocument) -> Iterator[RenderableType]:
    """Show what is communicated in vain."""
    for each in document.findings[:_MOST_FINDINGS]:
        place = "" if each.file is None else f"{fmt.place(each.file, each.line, document.cwd)}  "
        yield item(Text(f"{place}{fmt.one_line(each.what, 200)} (graph {each.graph})"))
        yield fix(each.fix)
    yield from more(len(document.findings), "finding", "--json", most=_MOST_FINDINGS)
