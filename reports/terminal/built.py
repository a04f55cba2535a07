"""What `--build` showed of kernels, on a screen."""

from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from ctrace.inspector.built import Built
from ctrace.inspector.model import Session
from ctrace.inspector.views.built import NOT_BUILT, Code, Resources, Time, codes, resources, times
from ctrace.reports import format as fmt
from ctrace.reports.terminal.parts import GAP, section

_THEME = "ansi_dark"
_LEXERS = {"ttir": "text", "ttgir": "text", "llir": "llvm", "ptx": "ptx", "sass": "text"}
_UNKNOWN = "not known"
_NARROW = 100


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
    yield Text("fits: the most blocks on one multiprocessor, and the warps that makes of those possible", style="dim")
    yield section("Compile time")
    yield from _compiling(found, width)


def _resources(found: Iterable[Resources], width: int) -> Table:
    made = _table(width, "kernel", "configuration", ">regs", ">spills", ">shared", ">fits", "limited by")
    for each in found:
        built, held = each.built, each.occupancy
        made.add_row(
            _name(built.kernel),
            _configuration(built),
            _number(built.registers),
            _number(built.spills),
            _UNKNOWN if built.shared is None else fmt.memory(built.shared),
            _UNKNOWN if held is None else f"{held.blocks} ({held.share:.0%})",
            _UNKNOWN if held is None else ", ".join(held.limits),
        )
    return made


def _compiling(found: tuple[Resources, ...], width: int) -> Iterator[RenderableType]:
    measured = [each.built for each in found if each.built.seconds]
    stages = list(dict.fromkeys(stage for built in measured for stage in built.seconds))
    made = _table(width, "kernel", ">all", *(f">{fmt.one_line(stage, 10)}" for stage in stages))
    for built in measured:
        each = (fmt.seconds(built.seconds[stage]) if stage in built.seconds else "" for stage in stages)
        made.add_row(_name(built.kernel), fmt.seconds(sum(built.seconds.values())), *each)
    if measured:
        yield made
    left = len(found) - len(measured)
    if left:
        yield Text(f"{fmt.count(left, 'kernel')} came from a cache: compile time not measured", style="dim")


def times_screen(session: Session, width: int, graph: str | None = None) -> Iterator[RenderableType]:
    """Show how long a launch of each kernel takes, its share, and how near it comes to what memory and arithmetic allow."""
    found = times(session, graph)
    if not found:
        yield Text("No launch was timed; run with --build.", style="dim")
        return
    yield section("Time of a launch: the median, with cold caches")
    made = _table(width, "kernel", ">calls", ">one", ">share", ">bound", ">of it", "set by")
    for each in found:
        if each.timed.seconds is not None:
            made.add_row(*_time(each))
    yield made
    for each in found:
        if each.timed.seconds is None:
            why = fmt.one_line(each.timed.why, 200)
            yield Text(f"{fmt.one_line(each.timed.kernel, 60)}: not measured: {why}", style="dim")
    yield from _notes(session)


def _time(each: Time) -> tuple[str | Text, ...]:
    least, reached = each.bound.seconds, each.reached
    return (
        _name(each.timed.kernel),
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
    if gpu.empty is not None:
        yield Text(f"A kernel that does nothing takes {_micro(gpu.empty)}, measured in the same way.", style="dim")


def ir_screen(
    session: Session, stage: str, kernel: str | None, width: int, graph: str | None = None
) -> Iterator[RenderableType]:
    """Show the code of a stage, of one kernel or of all.

    Raises:
        TargetError: there is no such stage or kernel, or nothing was built.
    """
    return _codes(codes(session, stage, kernel, graph), width)


def _codes(found: Iterable[Code], width: int) -> Iterator[RenderableType]:
    for each in found:
        built = each.built
        head = f"{built.graph} {built.stage}: {fmt.one_line(built.kernel)}"
        yield section(fmt.one_line(f"{head}  {_configuration(built)}", width))
        if each.text is None:
            yield Text("The log is damaged here: the code cannot be read.", style="yellow")
        else:
            text = fmt.plain(each.text).expandtabs(4)
            code = Syntax(
                text, _LEXERS.get(each.stage, "text"), theme=_THEME, background_color="default", word_wrap=True
            )
            yield Padding(code, (0, 0, 0, 0))


def _configuration(built: Built) -> str:
    sizes = " ".join(f"{fmt.one_line(name, 20)}={size}" for name, size in built.blocks.items())
    used = "" if built.chosen else " (not used)"
    return f"{sizes} {built.warps} warps {built.stages} stages{used}".strip()


def _table(width: int, *columns: str) -> Table:
    """Make a table; columns that begin with `>` hold numbers, and those of text give way on a narrow screen."""
    made = Table(box=None, padding=(0, GAP if width >= _NARROW else 1, 0, 0), header_style="dim", show_edge=False)
    for column in columns:
        is_number = column.startswith(">")
        made.add_column(
            column.lstrip(">"),
            overflow="ellipsis",
            no_wrap=True,
            justify="right" if is_number else "left",
            min_width=None if is_number else min(18, width // 5),
        )
    return made


def _name(kernel: str) -> str:
    return fmt.one_line(kernel, 80)


def _number(number: int | None) -> str:
    return _UNKNOWN if number is None else str(number)


def _micro(seconds: float | None) -> str:
    return "" if seconds is None else fmt.microseconds(seconds * 1e6)
