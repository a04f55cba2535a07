"""What `--build` showed of kernels, on a screen."""

from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ctrace.inspector.built import Built, Timed
from ctrace.inspector.model import Session
from ctrace.inspector.occupancy import Limit, Occupancy
from ctrace.inspector.rates import peaks_by
from ctrace.inspector.views.built import NOT_BUILT, Code, Resources, Time, codes, resources, times
from ctrace.reports import format as fmt
from ctrace.reports.terminal.code import highlighted
from ctrace.reports.terminal.parts import GAP, Verbatim, section

_LEXERS = {"ttir": "text", "ttgir": "text", "llir": "llvm", "ptx": "ptx", "sass": "text"}
_COMMENTS = {"llir": ";"}
"""What begins a comment where it is not `//`."""
_UNKNOWN = "not known"
_WIDE = 100
_SHORTEST = 14
"""Characters of the first column, whatever else a table holds."""


def resources_screen(
    session: Session, width: int, graph: str | None = None, *, all_of_them: bool = False
) -> Iterator[RenderableType]:
    """Show what each compiled Triton kernel takes, what limits how many run at a time, and how long compiling took."""
    found = resources(session, graph, all_of_them=all_of_them)
    if not found:
        yield Text(f"No Triton kernel was built; {NOT_BUILT}.", style="dim")
        return
    yield section("Resources of a Triton kernel, as compiled")
    yield _resources(found, width)
    yield Text("fits: the most blocks on one multiprocessor, and how full of warps that makes it", style="dim")
    yield from _refusals(session, graph)
    yield section("Compile time")
    yield from _compiling(found, width)


def _refusals(session: Session, graph: str | None) -> Iterator[RenderableType]:
    for each in session.refused:
        if graph in (None, each.graph):
            text = f"{each.kernel}: {each.configuration}: left out: {each.reason}"
            yield Text(fmt.one_line(text, 400), style="yellow")


def _resources(found: tuple[Resources, ...], width: int) -> Table:
    columns = ("kernel", "configuration", ">regs", ">spills", ">shared", ">fits", "limited by")
    heads = _Heads(columns, [each.built for each in found])
    rows: list[tuple[str, ...]] = []
    for each in found:
        built, held = each.built, each.occupancy
        rows.extend(heads.before(built))
        resources = (_number(built.registers), _number(built.spills), _memory(built.shared))
        fits = (_UNKNOWN, _UNKNOWN) if held is None else (f"{held.blocks} {held.share:4.0%}", _limits(held))
        rows.append((_name(built.kernel), _configuration(built, width), *resources, *fits))
    return _table(width, columns, rows)


def _limits(held: Occupancy) -> str:
    """Say what sets the limit; where all warps are there, nothing else matters."""
    return str(Limit.THREADS) if Limit.THREADS in held.limits else ", ".join(held.limits)


def _compiling(found: tuple[Resources, ...], width: int) -> Iterator[RenderableType]:
    measured = [each.built for each in found if each.built.seconds]
    stages = list(dict.fromkeys(stage for built in measured for stage in built.seconds))
    columns = ("kernel", ">all", *(f">{fmt.one_line(stage, 10)}" for stage in stages))
    heads = _Heads(columns, measured)
    rows: list[tuple[str, ...]] = []
    for built in measured:
        rows.extend(heads.before(built))
        each = (fmt.seconds(built.seconds[stage]) if stage in built.seconds else "" for stage in stages)
        rows.append((_name(built.kernel), fmt.seconds(sum(built.seconds.values())), *each))
    if measured:
        yield _table(width, columns, rows)
    left = len(found) - len(measured)
    if left:
        yield Text(
            f"{fmt.count(left, 'kernel')} came from a cache or another process: compile time not measured", style="dim"
        )


def times_screen(session: Session, width: int, graph: str | None = None) -> Iterator[RenderableType]:
    """Show how long a launch of each kernel takes, its share, and how near it comes to its bound."""
    found = times(session, graph)
    if not found:
        yield Text("No launch was timed; run with --build.", style="dim")
        return
    yield section("Time of a launch: the median, with cold caches")
    yield _times(found, width)
    for each in found:
        if each.timed.seconds is None:
            why = fmt.one_line(each.timed.why, 200)
            yield Text(f"{fmt.one_line(each.timed.kernel, 60)}: not measured: {why}", style="dim")
    yield from _notes(session)


def _times(found: tuple[Time, ...], width: int) -> Table:
    columns = ("kernel", ">calls", ">one", ">share", ">bound", ">of it", "set by")
    measured = [each for each in found if each.timed.seconds is not None]
    heads, rows = _Heads(columns, [each.timed for each in measured]), []
    for part in heads.parts:
        same = [each for each in measured if _part(each.timed) == part]
        rows += [*heads.before(same[0].timed), *map(_time, same)]
    return _table(width, columns, rows)


def _time(each: Time) -> tuple[str, ...]:
    least, reached = each.bound.seconds, each.reached
    return (
        _called(each.timed),
        str(each.calls),
        _micro(each.timed.seconds),
        f"{each.share:.0%}" if each.share is not None else "",
        _micro(least),
        "" if reached is None else f"{reached:.0%}",
        each.bound.sets,
    )


def _notes(session: Session) -> Iterator[RenderableType]:
    gpu = session.gpu
    yield Text("share: of the sum of these, each once for each of its calls in a graph part", style="dim")
    if gpu is None:
        yield Text("bound: not known of a processor", style="dim")
        return
    speed = _UNKNOWN if gpu.bandwidth is None else f"{gpu.bandwidth / 1e9:.0f} GB/s"
    copied = "" if gpu.copied is None else f"; a large copy reaches {gpu.copied / 1e9:.0f}"
    name = fmt.one_line(gpu.name, 60)
    yield Text(f"bound: the least that its bytes or operations can take on {name} ({speed}{copied})", style="dim")
    yield Text(f"most operations a second: by {peaks_by(gpu)}", style="dim")
    if gpu.empty is not None:
        yield Text(f"A kernel that does nothing takes {_micro(gpu.empty)}, measured in the same way.", style="dim")


def ir_screen(session: Session, stage: str, kernel: str | None, graph: str | None = None) -> Iterator[RenderableType]:
    """Show the code of a stage, of one kernel or of all.

    Raises:
        TargetError: there is no such stage or kernel, or nothing was built.
    """
    return _codes(codes(session, stage, kernel, graph))


def _codes(found: Iterable[Code]) -> Iterator[RenderableType]:
    for each in found:
        built = each.built
        head = f"{built.graph} {built.stage}: {fmt.one_line(built.kernel)}"
        mark = _COMMENTS.get(each.stage, "//")
        yield Verbatim(Text(f"{mark} {head}, {_configuration(built, _WIDE)}", style="bold"))
        if each.text is None:
            yield Text("The log is damaged here: the code cannot be read.", style="yellow")
        else:
            text = fmt.plain(each.text).expandtabs(4)
            yield highlighted(text, _LEXERS.get(each.stage, "text"))


def _configuration(built: Built, width: int) -> str:
    sizes = " ".join(f"{fmt.one_line(name, 20)}={size}" for name, size in built.blocks.items())
    warps = fmt.count(built.warps, "warp") if width >= _WIDE else f"{built.warps}w"
    stages = fmt.count(built.stages, "stage") if width >= _WIDE else f"{built.stages}s"
    return " ".join(part for part in ("" if built.chosen or built.open else "unused:", warps, stages, sizes) if part)


def _table(width: int, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
    """Make a table; columns that begin with `>` hold numbers and are never cut, the first two of text are."""
    gap = GAP if width >= _WIDE else 1
    made = Table(box=None, padding=(0, gap, 0, 0), header_style="dim", show_edge=False)
    for column in columns:
        made.add_column(
            column.lstrip(">"), no_wrap=True, overflow="ellipsis", justify="right" if column.startswith(">") else "left"
        )
    widths = [max(map(len, cells)) for cells in zip((name.lstrip(">") for name in columns), *rows, strict=True)]
    second = 0 if columns[1].startswith(">") else min(widths[1], 40 if width >= _WIDE else 15)
    first = width - gap * len(columns) - second - sum(widths[2 if second else 1 :])
    for row in rows:
        rest = (fmt.one_line(row[1], second), *row[2:]) if second else row[1:]
        made.add_row(_cut(row[0], max(first, _SHORTEST)), *rest)
    return made


def _cut(name: str, limit: int) -> str:
    """Cut a name in its middle: those of kernels begin alike and end in a number."""
    end = limit // 3
    return name if len(name) <= limit else f"{name[: limit - end - 1]}…{name[-end:]}"


class _Heads:
    """Rows that say which graph part the next rows are of, where a table has several."""

    def __init__(self, columns: tuple[str, ...], things: Iterable[Built | Timed]) -> None:
        self.parts = tuple(dict.fromkeys(map(_part, things)))
        self._rest = ("",) * (len(columns) - 1)
        self._last = "" if len(self.parts) > 1 else next(iter(self.parts), "")

    def before(self, thing: Built | Timed) -> Iterator[tuple[str, ...]]:
        """Give a row for a part that begins."""
        if self._last != _part(thing):
            self._last = _part(thing)
            yield (f"{self._last}:", *self._rest)


def _part(thing: Built | Timed) -> str:
    return f"{thing.graph} {thing.stage}"


def _name(kernel: str) -> str:
    return fmt.one_line(kernel)


def _called(timed: Timed) -> str:
    return f"{_name(timed.kernel)} (call {timed.launch + 1})" if timed.launch else _name(timed.kernel)


def _memory(size: int | None) -> str:
    return _UNKNOWN if size is None else fmt.memory(size)


def _number(number: int | None) -> str:
    return _UNKNOWN if number is None else str(number)


def _micro(seconds: float | None) -> str:
    return "" if seconds is None else fmt.microseconds(seconds * 1e6)
