"""Screens of compiled kernels: resources, compile time, launch time and intermediate code."""

from collections.abc import Iterable, Iterator, Mapping

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ctrace.inspector.facts.built import Built, LaunchTiming
from ctrace.inspector.facts.kernels import Stage
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.kernels.built_view import (
    NOT_BUILT,
    LaunchTimes,
    Occupancy,
    OccupancyLimit,
    Resources,
    StageCode,
    codes,
    peaks_by,
    resources,
    times,
)
from ctrace.inspector.findings.target_view import several, target_of
from ctrace.inspector.grouping import grouped
from ctrace.reports import format as fmt
from ctrace.reports.terminal.target_screen import code_note
from ctrace.reports.terminal.widgets import WIDE, Verbatim, columned, highlighted, micro, section
from ctrace.reports.wording.kernels_wording import COMMENTS, configuration_text

_LEXERS = {"ttir": "text", "ttgir": "text", "llir": "llvm", "ptx": "ptx", "sass": "text"}
_UNKNOWN = "not known"
_LOW = 0.25
"""Occupancy below which there may be too few warps to hide memory latency."""


def resources_screen(
    session: Session, width: int, graph: str | None = None, *, all_of_them: bool = False
) -> Iterator[RenderableType]:
    """Show the resources of each compiled Triton kernel, its occupancy and what limits it, and its compile time."""
    found = resources(session, graph, all_of_them=all_of_them)
    if not found:
        yield Text(f"No Triton kernel was built; {NOT_BUILT}.", style="dim")
        return
    gpu = target_of(session)
    where = f" for {fmt.one_line(gpu.target, 30)} (not run; fits is computed)" if gpu else ""
    yield section(f"Resources of each Triton kernel, as compiled{where}")
    yield _resources(found, width)
    yield Text("fits: blocks that fit on one SM at a time, and the occupancy that results", style="dim")
    yield from _warnings(found, several(session) if gpu else {})
    yield from _refusals(session, graph)
    yield section("Compile time, measured on this machine" if gpu else "Compile time")
    yield from _compiling(found, width)


def _refusals(session: Session, graph: str | None) -> Iterator[RenderableType]:
    for each in session.refused:
        if graph in (None, each.graph):
            text = f"{each.kernel}: {each.configuration}: left out: {each.reason}"
            yield Text(fmt.one_line(text, 400), style="yellow")


def _resources(found: tuple[Resources, ...], width: int) -> Table:
    columns = ("kernel", "configuration", ">regs", ">spills", ">shared", ">fits", "limited by")
    heads = _Heads(columns, [each.built for each in found])
    rows: list[tuple[str | Text, ...]] = []
    last = None
    for each in _together(found):
        built, occupancy = each.built, each.occupancy
        rows.extend(heads.before(built))
        is_same_kernel, last = last == _key(built), _key(built)
        spills = Text(fmt.known(built.spills, otherwise=_UNKNOWN), style="bold red" if built.spills else "")
        shared = fmt.known(built.shared, fmt.memory, _UNKNOWN)
        resources = (fmt.known(built.registers, otherwise=_UNKNOWN), spills, shared)
        configuration = configuration_text(built, short=width < WIDE, unused=each.unused)
        name = "  or" if is_same_kernel and not each.unused else _name(built.kernel)
        rows.append((name, configuration, *resources, *_fits(occupancy)))
    return columned(width, columns, rows)


def _together(found: tuple[Resources, ...]) -> list[Resources]:
    """Sort by graph part; torch compiles kernels in parallel, so the log mixes them."""
    parts = list(dict.fromkeys(_part(each.built) for each in found))
    return sorted(found, key=lambda each: parts.index(_part(each.built)))


def _fits(found: Occupancy | None) -> tuple[str | Text, str]:
    if found is None:
        return _UNKNOWN, _UNKNOWN
    return Text(f"{found.blocks} {found.share:4.0%}", style="yellow" if found.share < _LOW else ""), _limits(found)


def _warnings(found: tuple[Resources, ...], open_: Mapping[tuple[str, Stage, str], int]) -> Iterator[RenderableType]:
    """Warn about spills, low occupancy, and choices between configurations that autotuning makes on the device."""
    if spilling := {each.built.kernel for each in found if each.built.spills and not each.unused}:
        names = fmt.listed((fmt.one_line(name, 60) for name in sorted(spilling)), 3)
        yield Text(f"Registers spilled to memory in {names}", style="red")
    if low := {each.built.kernel for each in found if each.occupancy and each.occupancy.share < _LOW}:
        number = fmt.count(len(low), "kernel reaches", "kernels reach")
        yield Text(f"{number} less than {_LOW:.0%} occupancy", style="yellow")
    if any(_key(each.built) in open_ for each in found):
        yield Text("or: only one of these is launched; torch picks it on the device, by autotuning", style="yellow")


def _limits(found: Occupancy) -> str:
    """Name what limits occupancy; name nothing at full occupancy."""
    if OccupancyLimit.THREADS in found.limits:
        return str(OccupancyLimit.THREADS)
    return ", ".join(found.limits)


def _compiling(found: tuple[Resources, ...], width: int) -> Iterator[RenderableType]:
    measured = [each.built for each in _together(found) if each.built.seconds]
    stages = list(dict.fromkeys(stage for built in measured for stage in built.seconds))
    columns = ("kernel", ">all", *(f">{fmt.one_line(stage, 10)}" for stage in stages))
    heads = _Heads(columns, measured)
    rows: list[tuple[str, ...]] = []
    for same in _by_kernel(measured):
        rows.extend(heads.before(same[0]))
        each = [_sum(same, stage) for stage in stages]
        rows.append((f"{_name(same[0].kernel)}{fmt.repeated(len(same), ' ×')}", _sum(same), *each))
    if measured:
        yield columned(width, columns, rows)
    if len(rows) < len(measured):
        yield Text("×: sum over several configurations of a kernel", style="dim")
    if earlier := sum(built.cached for built in measured):
        yield Text(
            f"{fmt.count(earlier, 'of them was', 'of them were')} compiled by an earlier run, which took this time",
            style="dim",
        )
    if left := fmt.some(len(found) - len(measured), "kernel"):
        yield Text(f"{left} came from a cache or another process: compile time not measured", style="dim")


def _by_kernel(every: Iterable[Built]) -> list[list[Built]]:
    """Group configurations by kernel."""
    found = grouped(every, lambda each: _key(each))
    return list(found.values())


def _key(built: Built) -> tuple[str, Stage, str]:
    return built.graph, built.stage, built.kernel


def _sum(same: list[Built], stage: str | None = None) -> str:
    """Add up the compile time of configurations, at one stage or at all stages; empty if no time is known."""
    known = [took for each in same for name, took in each.seconds.items() if stage in (None, name)]
    if known:
        return fmt.seconds(sum(known))
    return ""


def times_screen(session: Session, width: int, graph: str | None = None) -> Iterator[RenderableType]:
    """Show the time of one launch of each kernel, its share, and how close it is to its bound."""
    found = times(session, graph)
    if not found:
        yield Text("No launch was timed. Run with --build.", style="dim")
        return
    yield section("Time per launch: median, with cold caches")
    yield _times(found, width)
    for each in found:
        if each.timed.seconds is None:
            why = fmt.one_line(each.timed.why, 200)
            yield Text(f"{fmt.one_line(each.timed.kernel, 60)}: not measured: {why}", style="dim")
    yield from _notes(session)


def _times(found: tuple[LaunchTimes, ...], width: int) -> Table:
    columns = ("kernel", ">calls", ">time", ">share", ">bound", ">reached", "set by")
    measured = [each for each in found if each.timed.seconds is not None]
    heads, rows = _Heads(columns, [each.timed for each in measured]), []
    for part in heads.parts:
        same = [each for each in measured if _part(each.timed) == part]
        rows += [*heads.before(same[0].timed), *map(_time, same)]
    return columned(width, columns, rows)


def _time(each: LaunchTimes) -> tuple[str, ...]:
    share, reached = (fmt.known(part, "{:.0%}".format, "") for part in (each.share, each.reached))
    times = micro(each.timed.seconds), share, micro(each.bound.seconds), reached
    return (_called(each.timed), str(each.calls), *times, each.bound.sets)


def _notes(session: Session) -> Iterator[RenderableType]:
    gpu = session.gpu
    yield Text("share: of the total time of these kernels, counting every call in a graph part", style="dim")
    if gpu is None:
        yield Text("bound: not known for a CPU", style="dim")
        return
    speed = fmt.known(gpu.bandwidth, fmt.gigabytes, _UNKNOWN)
    copied = "" if gpu.copied is None else f"; a large copy reaches {gpu.copied / 1e9:.0f}"
    name = fmt.one_line(gpu.name, 60)
    yield Text(f"bound: least time for its bytes or operations on {name} ({speed}{copied})", style="dim")
    yield Text("reached: bound / time", style="dim")
    yield Text(f"peak operations per second: from {peaks_by(gpu)}", style="dim")
    if gpu.empty is not None:
        yield Text(f"An empty kernel takes {micro(gpu.empty)}, measured the same way.", style="dim")


def ir_screen(session: Session, stage: str, kernel: str | None, graph: str | None = None) -> Iterator[RenderableType]:
    """Show the code of a stage, for one kernel or for all.

    Raises:
        TargetError: there is no such stage or kernel, or nothing was built.
    """
    return _codes(codes(session, stage, kernel, graph), code_note(session))


def _codes(found: Iterable[StageCode], note: str) -> Iterator[RenderableType]:
    for each in found:
        built = each.built
        head = f"{built.graph} {built.stage}: {fmt.one_line(built.kernel)}"
        mark = COMMENTS.get(each.stage, "//")
        yield Verbatim(Text(f"{mark} {head}, {configuration_text(built, unused=each.unused)}{note}", style="bold"))
        if each.text is None:
            yield Text("The log is damaged here: ctrace cannot read the code.", style="yellow")
        else:
            text = fmt.plain(each.text).expandtabs(4)
            yield highlighted(text, _LEXERS.get(each.stage, "text"))


class _Heads:
    """Adds rows to a table of several graph parts; each names the graph part of the rows below it."""

    def __init__(self, columns: tuple[str, ...], things: Iterable[Built | LaunchTiming]) -> None:
        self.parts = tuple(dict.fromkeys(map(_part, things)))
        self._rest = ("",) * (len(columns) - 1)
        self._last = "" if len(self.parts) > 1 else next(iter(self.parts), "")

    def before(self, thing: Built | LaunchTiming) -> Iterator[tuple[str, ...]]:
        """Yield a heading row if `thing` begins a new graph part."""
        if self._last != _part(thing):
            self._last = _part(thing)
            yield (f"{self._last}:", *self._rest)


def _part(thing: Built | LaunchTiming) -> str:
    return f"{thing.graph} {thing.stage}"


def _name(kernel: str) -> str:
    return fmt.one_line(kernel)


def _called(timed: LaunchTiming) -> str:
    if timed.launch:
        return f"{_name(timed.kernel)} (call {timed.launch + 1})"
    return _name(timed.kernel)
