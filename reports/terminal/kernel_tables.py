"""Tables of kernels: all kernels of each graph part, and for `explain` the kernels that move the most bytes."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ctrace.inspector.facts.kernel_facts import Kernel
from ctrace.inspector.findings.kernels.kernel_view import (
    KernelOfPart,
    PartKernels,
    by_bytes,
    largest_first,
)
from ctrace.inspector.findings.kernels.kernels_document import KernelsDocument
from ctrace.inspector.grouping import grouped
from ctrace.reports import format as fmt
from ctrace.reports.terminal.target_gpu_screen import basis_line
from ctrace.reports.terminal.widgets import GAP, MOST, capped, more, table
from ctrace.reports.wording.kernels_wording import (
    UNKNOWN,
    cut_lines,
    kernel_ops_text,
    language,
    lines_text,
    memory,
    outputs_text,
    short_names,
    work_text,
)

WIDE = 120
"""The screen width from which a table shows all columns."""
# Chosen: a table of the largest kernels and its total are half of a page.
_ROWS = 12
# Chosen: as many as other screens list of a kind.
_PARTS = 6


class _Column(Struct, frozen=True):
    title: str
    cell: Callable[[KernelOfPart, str], str]
    """Writes a cell; the second argument is the file named above the table."""
    is_number: bool = False
    wide: bool | None = None
    """Only on a wide screen, or only on a narrow one."""
    cut: Callable[[str, int], str] = fmt.one_line


_COLUMNS = (
    _Column("language", lambda row, _: language(row.kernel), wide=True),
    _Column("aten ops", lambda row, _: kernel_ops_text(row.kernel)),
    _Column("lines", lambda row, file: lines_text(row.kernel.lines, file), cut=cut_lines),
    _Column("output", lambda row, _: outputs_text(row), wide=True),
    _Column("nodes", lambda row, _: str(len(row.nodes)) if row.nodes else UNKNOWN, is_number=True, wide=True),
    _Column("reads", lambda row, _: memory(row.work.read), is_number=True, wide=True),
    _Column("writes", lambda row, _: memory(row.work.written), is_number=True, wide=True),
    _Column("bytes", lambda row, _: memory(row.work.bytes), is_number=True, wide=False),
    _Column("share", lambda row, _: share_text(row), is_number=True, wide=True),
    _Column("FLOPs", lambda row, _: fmt.known(row.work.flops, fmt.scaled), is_number=True),
    _Column("FLOP/B", lambda row, _: fmt.known(row.work.intensity, fmt.intensity), is_number=True),
)


def share_text(row: KernelOfPart) -> str:
    """Write the share of the graph part's bytes: `71%`."""
    return fmt.known(row.share, lambda share: f"{100 * share:.0f}%", UNKNOWN)


def _nothing(document: KernelsDocument) -> str:
    """Say that there are no kernels; a log that only torch wrote may lack them although the run had some."""
    if document.run.environment.ctrace or not document.graphs:
        return "No kernel was generated in this run."
    return "This log has no code of kernels: torch logs it only where Inductor compiles or its cache has it."


def kernels_tables(document: KernelsDocument, width: int, *, all_of_it: bool = False) -> Iterator[RenderableType]:
    """Show the graph parts that move the most bytes first, and so the kernels of each."""
    if not document.parts:
        yield Text(f"\n{_nothing(document)}", style="dim")
        return
    ordered = largest_first(document.parts)
    shown = capped(ordered, _PARTS, all_of_it=all_of_it)
    for part in shown:
        yield part_title(part, document.cwd)
        rows = capped(part.rows, _ROWS, all_of_it=all_of_it)
        yield _kernels(part, rows, width)
        yield from more(len(part.rows), "kernel", "--all", most=len(rows), before="")
        yield Text(_total(part), style="dim")
    yield from more(len(ordered), "graph part", "--all", most=len(shown), before="\n")
    yield from _ending(ordered)
    yield from basis_line(document.target_gpu)


def part_title(part: PartKernels, cwd: str) -> Text:
    """Write the heading of a graph part, after an empty line."""
    graph = part.of
    function = f"{fmt.one_line(graph.function)}, " if graph else ""
    place = f"  {fmt.place(graph.file, graph.line, cwd)}" if graph else ""
    return Text.assemble("\n", (f"{fmt.one_line(part.graph)}  {function}stage {part.stage}", "bold"), (place, "dim"))


def _total(part: PartKernels) -> str:
    calls = sum(row.kernel.calls for row in part.rows)
    number = fmt.count(len(part.rows), "kernel")
    unknown = sum(row.work.bytes is None or row.work.flops is None for row in part.rows)
    left = f"; {fmt.count(unknown, 'kernel')} only partly known" if unknown and unknown < len(part.rows) else ""
    return f"total: {number}, {fmt.count(calls, 'call')}; {work_text(part.known, ratio=part.is_known)}{left}"


def _ending(found: Sequence[PartKernels]) -> Iterator[RenderableType]:
    """Explain why a value is not known, and name the command that shows one kernel."""
    rows = [row for part in found for row in part.rows]
    if not any(row.kernel.launches for row in rows):
        yield Text("\n?: not known. The log does not record the arguments of kernels: an older ctrace or torch alone "
                   "wrote it.", style="dim")  # fmt: skip
    elif not all(part.is_known for part in found):
        yield Text("\n?: not known. torch does not say what these kernels move or compute.", style="dim")
    if rows:
        yield Text(f"\nDetails of one kernel: ctrace kernels --kernel {fmt.one_line(rows[0].label)}", style="dim")


def _kernels(part: PartKernels, rows: Sequence[KernelOfPart], width: int) -> Table:
    """Show kernels, one row each, with more columns on a wide screen."""
    wide = width >= WIDE
    columns = [column for column in _COLUMNS if column.wide in (None, wide)]
    return _table(rows, width, columns, shows_owner=not wide, file=part.of.file if part.of else "")


def _table(
    rows: Sequence[KernelOfPart], width: int, columns: Sequence[_Column], *, shows_owner: bool, file: str = ""
) -> Table:
    cells = [[column.cell(row, file) for row in rows] for column in columns]
    marks = [_mark(row.kernel, shows_owner=shows_owner) for row in rows]
    numbers = [column.is_number for column in columns]
    longest = [max([len(column.title), *map(len, each)]) for column, each in zip(columns, cells, strict=True)]
    # A number that is cut is another number, so only texts share what is left.
    taken = sum(number + GAP for number, fixed in zip(longest, numbers, strict=True) if fixed)
    named = max(len(fmt.one_line(row.label)) + len(mark) for row, mark in zip(rows, marks, strict=True))
    texts = [named, *(length for length, fixed in zip(longest, numbers, strict=True) if not fixed)]
    rooms = iter(fitted(texts, width - taken - GAP * len(texts)))
    names = _names(rows, marks, next(rooms))
    limits = [0 if fixed else next(rooms) for fixed in numbers]
    shown = table("kernel", *(column.title for column in columns))
    for at, fixed in enumerate(numbers, 1):
        shown.columns[at].justify = "right" if fixed else "left"
    for number, name in enumerate(names):
        shown.add_row(
            name, *(at.cut(each[number], limit) for at, each, limit in zip(columns, cells, limits, strict=True))
        )
    return shown


def _names(rows: Sequence[KernelOfPart], marks: Sequence[str], room: int) -> list[str]:
    short = short_names({row.label: room - len(mark) for row, mark in zip(rows, marks, strict=True)})
    return [f"{short[row.label]}{mark}" for row, mark in zip(rows, marks, strict=True)]


def _mark(kernel: Kernel, *, shows_owner: bool) -> str:
    """Return the suffix of a name: how often the kernel is called, and `yours` or `external` if no column says so."""
    times = fmt.repeated(kernel.calls, " ×")
    if shows_owner and kernel.user:
        return f" (yours){times}"
    if shows_owner and kernel.language == "external":
        return f" (external){times}"
    return times


def fitted(wanted: Sequence[int], room: int) -> list[int]:
    """Return a width for each text; if room is short, the first text gets twice as much as each other text."""
    weights = [2 if not at else 1 for at in range(len(wanted))]
    widths = [0] * len(wanted)
    left = sum(weights)
    # Those that need least come first, and what they leave goes to the longer ones.
    for at in sorted(range(len(wanted)), key=lambda at: wanted[at] / weights[at]):
        widths[at] = max(min(wanted[at], room * weights[at] // left), 1)
        room -= widths[at]
        left -= weights[at]
    return widths


def most_moving(found: Iterable[KernelOfPart], width: int) -> RenderableType:
    """Show, for `explain`, the kernels that move the most bytes; if bytes are not known, their languages."""
    by_part = grouped(found, lambda row: (row.kernel.graph, row.kernel.stage))
    rows = sorted((row for part in by_part.values() for row in part), key=by_bytes)
    is_known = any(row.work.bytes is not None or row.work.flops is not None for row in rows)
    titles = ("aten ops", "lines", "bytes", "FLOPs") if is_known else ("language", "aten ops", "lines")
    columns = [column for column in _COLUMNS if column.title in titles]
    shown = _table(rows[:MOST], width, columns, shows_owner=is_known)
    return Group(shown, *more(len(rows), "kernel", "ctrace kernels"))
