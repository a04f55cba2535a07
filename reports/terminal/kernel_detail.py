"""What `ctrace kernels` shows beside its tables: one kernel in detail, the kernels of a line, and code.

- Triton kernels that the user wrote.
- Compiled kernels: resources, compile time, launch time and intermediate code.
- What `--dump` wrote, and what it left out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ctrace.inspector.facts.built import Built, Gpu, LaunchTiming
from ctrace.inspector.facts.fusion_facts import Buffer, Node
from ctrace.inspector.facts.kernel_facts import Argument, Stage
from ctrace.inspector.facts.user_kernels import Parameter, ParameterKind, UserKernel
from ctrace.inspector.findings.kernels.at_line import KernelAtLine, LineDocument
from ctrace.inspector.findings.kernels.built_view import (
    NOT_BUILT,
    LaunchTimes,
    Occupancy,
    OccupancyLimit,
    Resources,
    peaks_by,
)
from ctrace.inspector.findings.kernels.kernel_view import KernelOfPart, PartKernels
from ctrace.inspector.findings.kernels.kernels_document import (
    DetailedKernel,
    KernelLaunch,
    KernelsDocument,
    StageDocument,
    WrappersDocument,
)
from ctrace.inspector.findings.kernels.user_kernels_view import (
    EPILOGUES,
    UserKernelCalls,
    grid_depends_on_config,
    notes,
    specialized,
)
from ctrace.inspector.findings.target_gpu_view import NEEDS_DEVICE, several
from ctrace.inspector.grouping import grouped
from ctrace.reports import format as fmt
from ctrace.reports.dump.dumped import Dumped, DumpedPart
from ctrace.reports.terminal.kernel_tables import kernels_tables, part_title, share_text
from ctrace.reports.terminal.target_gpu_screen import (
    basis_line,
    bounds_screen,
    choices_section,
    code_note,
    emitted_for,
    nothing_compiled,
    questions_section,
)
from ctrace.reports.terminal.widgets import (
    MOST,
    WIDE,
    Verbatim,
    columned,
    fix,
    hanging,
    highlighted,
    indented,
    item,
    labelled,
    micro,
    more,
    section,
    table,
)
from ctrace.reports.wording.kernels_wording import (
    COMMENTS,
    buffer_text,
    configuration_text,
    fused_text,
    kernel_ops_text,
    language,
    least_text,
    lines_text,
    memory,
    nodes_text,
    ops_text,
    outputs_text,
    place_text,
    resources_text,
    sorted_places,
    source_text,
    work_text,
)

_STAGE_LEXERS = {"ttir": "text", "ttgir": "text", "llir": "llvm", "ptx": "ptx", "sass": "text"}
_UNKNOWN = "not known"
_LOW = 0.25
"""Occupancy below which there may be too few warps to hide memory latency."""


def kernels_screen(document: KernelsDocument, width: int, *, all_of_it: bool = False) -> Iterator[RenderableType]:
    """Show the tables of kernels, and the sections that only some runs have: your kernels, built ones, a target GPU."""
    yield from kernels_tables(document, width, all_of_it=all_of_it)
    yield from user_kernels_section(document.user_calls, document.cwd, most=None if all_of_it else MOST)
    if document.timed:
        yield from times_screen(document, width)
    if document.built:
        yield from resources_screen(document, width, all_of_them=all_of_it)
    if document.target_gpu is None:
        return
    if not document.built:
        yield nothing_compiled(document.run.environment)
    yield from bounds_screen(document.target_gpu.gpu, document.bounds, width, all_of_it=all_of_it)
    yield from choices_section(document.left_open, all_of_it=all_of_it)
    yield from questions_section(document.asked, all_of_it=all_of_it)


def resources_screen(document: KernelsDocument, width: int, *, all_of_them: bool = False) -> Iterator[RenderableType]:
    """Show the resources of each compiled Triton kernel, its occupancy and what limits it, and its compile time."""
    of_graph = (each for each in document.built if document.graph in (None, each.built.graph))
    # Autotuning compiles configurations that nothing launches in the end.
    found = tuple(each for each in of_graph if all_of_them or each.is_launched)
    if not found:
        yield Text(f"No Triton kernel was built; {NOT_BUILT}.", style="dim")
        return
    target = document.target_gpu
    where = f" for {fmt.one_line(target.gpu.target, 30)} (not run; fits is computed)" if target else ""
    yield section(f"Resources of each Triton kernel, as compiled{where}")
    yield _resources(found, width)
    yield Text("fits: blocks that fit on one SM at a time, and the occupancy that results", style="dim")
    yield from _warnings(found, several(each.built for each in found) if target else {})
    yield from _refusals(document)
    yield section("Compile time, measured on this machine" if target else "Compile time")
    yield from _compiling(found, width)


def _refusals(document: KernelsDocument) -> Iterator[RenderableType]:
    for each in document.refused:
        if document.graph in (None, each.graph):
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
        name = "  or" if is_same_kernel and not each.unused else fmt.one_line(built.kernel)
        rows.append((name, configuration, *resources, *_fits(occupancy)))
    return columned(width, columns, rows)


def _together(found: tuple[Resources, ...]) -> list[Resources]:
    """Sort by graph part; torch compiles kernels in parallel, so the log mixes them."""
    parts = list(dict.fromkeys(_part_of(each.built) for each in found))
    return sorted(found, key=lambda each: parts.index(_part_of(each.built)))


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
    # With the threads at their limit, more of another resource would let no more blocks in.
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
        rows.append((f"{fmt.one_line(same[0].kernel)}{fmt.repeated(len(same), ' ×')}", _sum(same), *each))
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


def times_screen(document: KernelsDocument, width: int) -> Iterator[RenderableType]:
    """Show the time of one launch of each kernel, its share, and how close it is to its bound."""
    found = document.times
    if not found:
        yield Text("No launch was timed. Run with --build.", style="dim")
        return
    yield section("Time per launch: median, with cold caches")
    yield _times(found, width)
    for each in found:
        if each.timed.seconds is None:
            why = fmt.one_line(each.timed.why, 200)
            yield Text(f"{fmt.one_line(each.timed.kernel, 60)}: not measured: {why}", style="dim")
    yield from _notes(document.gpu)


def _times(found: tuple[LaunchTimes, ...], width: int) -> Table:
    columns = ("kernel", ">calls", ">time", ">share", ">bound", ">reached", "set by")
    measured = [each for each in found if each.timed.seconds is not None]
    heads, rows = _Heads(columns, [each.timed for each in measured]), []
    for part in heads.parts:
        same = [each for each in measured if _part_of(each.timed) == part]
        rows += [*heads.before(same[0].timed), *map(_time, same)]
    return columned(width, columns, rows)


def _time(each: LaunchTimes) -> tuple[str, ...]:
    share, reached = (fmt.known(part, "{:.0%}".format, "") for part in (each.share, each.reached))
    times = micro(each.timed.seconds), share, micro(each.bound.seconds), reached
    return (_called(each.timed), str(each.calls), *times, each.bound.sets)


def _notes(gpu: Gpu | None) -> Iterator[RenderableType]:
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


def stage_code_screen(document: StageDocument) -> Iterator[RenderableType]:
    """Show the code of a stage, for one kernel or for all."""
    note = code_note(document.target_gpu)
    for each in document.code:
        built = each.built
        head = f"{built.graph} {built.stage}: {fmt.one_line(built.kernel)}"
        mark = COMMENTS.get(each.stage, "//")
        yield Verbatim(Text(f"{mark} {head}, {configuration_text(built, unused=each.unused)}{note}", style="bold"))
        if each.text is None:
            yield Text("The log is damaged here: ctrace cannot read the code.", style="yellow")
        else:
            text = fmt.plain(each.text).expandtabs(4)
            yield highlighted(text, _STAGE_LEXERS.get(each.stage, "text"))


class _Heads:
    """Adds rows to a table of several graph parts; each names the graph part of the rows below it."""

    def __init__(self, columns: tuple[str, ...], things: Iterable[Built | LaunchTiming]) -> None:
        self.parts = tuple(dict.fromkeys(map(_part_of, things)))
        self._rest = ("",) * (len(columns) - 1)
        # A single part needs no heading, as if its heading had been written.
        self._last = "" if len(self.parts) > 1 else next(iter(self.parts), "")

    def before(self, thing: Built | LaunchTiming) -> Iterator[tuple[str, ...]]:
        """Yield a heading row if `thing` begins a new graph part."""
        if self._last != _part_of(thing):
            self._last = _part_of(thing)
            yield (f"{self._last}:", *self._rest)


def _part_of(thing: Built | LaunchTiming) -> str:
    return f"{thing.graph} {thing.stage}"


def _called(timed: LaunchTiming) -> str:
    if timed.launch:
        return f"{fmt.one_line(timed.kernel)} (call {timed.launch + 1})"
    return fmt.one_line(timed.kernel)


# Chosen, as is the next one: a fact about a kernel is a line or two.
_FEW = 4
_LONG = 300


def user_kernels_section(
    found: Sequence[UserKernelCalls], cwd: str, *, most: int | None = MOST
) -> Iterator[RenderableType]:
    """Show each user-written kernel and how torch handles it. `most`: how many, None for all."""
    if not found:
        return
    yield section("Your Triton kernels")
    shown = found if most is None else found[:most]
    for number, each in enumerate(shown, 1):
        yield item(_one(number, each, cwd))
    yield from more(len(found), "call of a kernel", most=len(shown), several="calls of kernels")


def _one(number: int, each: UserKernelCalls, cwd: str) -> RenderableType:
    kernel = each.kernel
    lines: list[RenderableType] = [_head(number, each, cwd), _table_of_facts(_rows(kernel, cwd))]
    for note in notes(kernel):
        lines.append(hanging(note.text))
        if note.todo:
            lines.append(fix(note.todo))
    return Group(*lines)


def _head(number: int, each: UserKernelCalls, cwd: str) -> Text:
    kernel = each.kernel
    times = fmt.repeated(each.number, " · ", " calls")
    name = fmt.one_line(kernel.kernel, 60)
    called = fmt.listed((_shortened(line, cwd) for line in kernel.lines), _FEW) or "a line that torch does not record"
    return Text.assemble(
        f"{number}. ",
        (name, "bold"),
        f"  {fmt.place(kernel.file, kernel.line, cwd)}",
        (f"\n   called at {called} · graph {kernel.graph} {kernel.stage}{times}", "dim"),
    )


def _shortened(line: str, cwd: str) -> str:
    file, _, number = line.rpartition(":")
    return fmt.place(file, int(number) if number.isdecimal() else None, cwd)


def _table_of_facts(rows: Iterable[tuple[str, str]]) -> Table:
    made = Table(box=None, padding=(0, 2, 0, 0), show_header=False, show_edge=False)
    made.add_column(width=11, style="dim", justify="left")
    made.add_column(overflow="fold")
    for title, text in rows:
        if text:
            made.add_row(f"   {title}", fmt.one_line(text, _LONG))
    return made


def _rows(kernel: UserKernel, cwd: str) -> Iterator[tuple[str, str]]:
    yield "writes", _written(kernel)
    yield "reads", _read(kernel)
    yield "fixed", ", ".join(f"{each.name} = {each.value}" for each in specialized(kernel))
    yield "numbers", ", ".join(f"{each.name} = {each.value}" for each in kernel.parameters if _is_free(each))
    yield "grid", _grids(kernel)
    yield "configs", _configs(kernel)
    yield "tuning", _tuning(kernel)
    yield "epilogue", EPILOGUES[kernel.epilogue] if kernel.epilogue else "not known: no code was generated"
    yield "op", _op(kernel, cwd)
    yield "FLOPs", _flops(kernel)
    yield "code", kernel.name or "not generated"


def _is_free(parameter: Parameter) -> bool:
    return parameter.kind is ParameterKind.NUMBER and not parameter.fixed


def _written(kernel: UserKernel) -> str:
    if kernel.assumed is None:
        return "not known: torch does not report it"
    # A kernel may write through a pointer that torch does not follow.
    names = ", ".join(_tensor(each) for each in kernel.tensors if each.written) or "nothing that torch can see"
    if kernel.assumed:
        return f"{names} (assumed, not known)"
    return names


def _read(kernel: UserKernel) -> str:
    if all(each.read is None for each in kernel.tensors):
        if kernel.assumed:
            return "not known"
        return "not reported by this torch version"
    return ", ".join(_tensor(each) for each in kernel.tensors if each.read) or "nothing that torch can see"


def _tensor(parameter: Parameter) -> str:
    return f"{parameter.name} {parameter.dtype}[{', '.join(parameter.shape)}]"


def _grids(kernel: UserKernel) -> str:
    grids = dict.fromkeys(f"({', '.join(grid)})" for grid in kernel.grids)
    listed = fmt.listed(grids, _FEW)
    if grid_depends_on_config(kernel):
        return f"{listed}, by configuration"
    return listed


def _configs(kernel: UserKernel) -> str:
    if not kernel.configs:
        return ""
    one = (", ".join(f"{name}={value}" for name, value in each.items()) for each in kernel.configs)
    return f"{len(kernel.configs)}: {'; '.join(list(one)[:_FEW])}{'; …' if len(kernel.configs) > _FEW else ''}"


def _tuning(kernel: UserKernel) -> str:
    if not kernel.autotuned:
        return ""
    lists = {"key": kernel.key, "restores": kernel.restored, "zeroes": kernel.zeroed}
    parts = [f"{word} {', '.join(names)}" for word, names in lists.items() if names]
    if not kernel.key:
        parts.insert(0, "no key")
    return f"triton.autotune: {'; '.join(parts)}"


def _op(kernel: UserKernel, cwd: str) -> str:
    op = kernel.op
    if op is None:
        return ""
    fallbacks = fmt.framed("own kernel for ", ", ".join(op.fallbacks)) or "no kernel for other devices"
    gradient = "has a gradient" if op.autograd else "no gradient"
    return f"{op.name} ({fmt.place(op.file, op.line, cwd)}): {fallbacks}; {gradient}"


def _flops(kernel: UserKernel) -> str:
    if kernel.op is not None and kernel.op.flops:
        return f"a formula is registered for {kernel.op.name}"
    if kernel.flops:
        return "a formula is registered for the kernel"
    return "not counted: no formula is registered (register_flop_formula)"


_LEXERS = {"cpp": "cpp"}
"""Pygments' lexer for each language; any other language is shown as Python."""
# Chosen: nodes, buffers and calls of one kernel, each a table, share a page.
_MOST = 12


def kernel_screen(document: KernelsDocument, *, all_of_it: bool = False) -> Iterator[RenderableType]:
    """Show everything known about one kernel, for each graph part that has it."""
    most = 10**9 if all_of_it else _MOST
    yield from emitted_for(document.target_sentence)
    for part in document.parts:
        for row in part.rows:
            yield part_title(part, document.cwd)
            yield Text(fmt.one_line(row.kernel.name), style="bold cyan")
            yield from _facts(document, part, row, most)
            yield from _nodes(row.nodes if row.is_fused else (), most)
            yield from _buffers(row, most)
            yield from _launches(row.launches, most)
    yield from basis_line(document.target_gpu)


def _facts(document: KernelsDocument, part: PartKernels, row: DetailedKernel, most: int) -> Iterator[RenderableType]:
    kernel = row.kernel
    share = f"; {share_text(row)} of all bytes in {fmt.plain(part.name)}" if row.share is not None else ""
    yield _fact("language", f"{language(kernel)}, {fmt.count(kernel.calls, 'call')}")
    yield _fact("aten ops", kernel_ops_text(kernel, most))
    yield from _places(document, "lines", kernel.lines, most, "not known")
    yield _fact("output", outputs_text(row, most) if row.outputs else "not known")
    yield _fact("work", f"{work_text(row.work)}{share}")
    yield _fact("fused from", fused_text(row))
    yield from _on_the_gpu(row, has_target=document.target_gpu is not None)


def _on_the_gpu(row: DetailedKernel, *, has_target: bool) -> Iterator[RenderableType]:
    """Show the kernel's resources as compiled, and its lower bound on the target GPU."""
    for number, each in enumerate(row.built):
        yield _fact("" if number else "compiled", resources_text(each))
    if not has_target:
        return
    if len(row.built) > 1 and not any(each.built.chosen for each in row.built):
        yield _fact("", "torch picks one of these on the device, by autotuning")
    least = row.least
    if least.seconds is None:
        yield _fact("bound", f"not known; its time is {NEEDS_DEVICE}")
        return
    bound = f"at least {least_text(least.seconds)}, set by {', '.join(least.sets)}; computed, with cold caches"
    yield _fact("bound", f"{bound}; its time is {NEEDS_DEVICE}")


def _places(
    document: KernelsDocument | LineDocument, name: str, places: Sequence[str], most: int, otherwise: str
) -> Iterator[RenderableType]:
    """Show source lines with their code."""
    shown = [place_text(place, document.listings, document.cwd) for place in sorted_places(places)]
    for number, line in enumerate(shown[:most] or [otherwise]):
        yield _fact("" if number else name, line, fold=False)
    if len(shown) > most:
        yield _fact("", f"and {fmt.count(len(shown) - most, 'more line')}: see --all")


def _fact(name: str, value: str, *, fold: bool = True) -> RenderableType:
    if not fold:
        return item(Text.assemble((f"{name:<11}", "dim"), value, no_wrap=True, overflow="ellipsis"))
    return labelled(name, value, 10)


def _nodes(nodes: Sequence[Node], most: int) -> Iterator[RenderableType]:
    if not nodes:
        return
    yield section("Fused from")
    shown = table("node", "kind", "loops", "aten ops", "lines")
    for node in nodes[:most]:
        shown.add_row(
            fmt.one_line(node.name, 24),
            str(node.kind),
            fmt.one_line(node.loops, 24),
            ops_text(node.ops, 4),
            lines_text(node.lines),
        )
    yield shown
    yield from more(len(nodes), "node", "--all", most=most, before="")


def _buffers(row: KernelOfPart, most: int) -> Iterator[RenderableType]:
    if not row.buffers:
        return
    yield section("Buffers")
    shown = table("buffer", "is", "shape", "reads", "writes")
    for at in (3, 4):
        shown.columns[at].justify = "right"
    for buffer in row.buffers[:most]:
        accesses = [access for node in row.merged for access in node.accesses if access.buffer == buffer.name]
        read, written = sum(each.read for each in accesses), sum(each.written for each in accesses)
        moved = (memory(size) if size else "" for size in (read, written))
        shown.add_row(fmt.one_line(buffer.name, 30), str(buffer.role), _typed(buffer), *moved)
    yield shown
    yield from more(len(row.buffers), "buffer", "--all", most=most, before="")


def _typed(buffer: Buffer) -> str:
    return fmt.one_line(f"{buffer_text(buffer)} {buffer.device}", 40)


def _launches(launches: Sequence[KernelLaunch], most: int) -> Iterator[RenderableType]:
    if not launches:
        return
    yield section("Calls")
    for number, each in enumerate(launches[:most], 1):
        launch = each.of
        where = f"  {lines_text(launch.lines)}" if launch.lines and len(launches) > 1 else ""
        yield Text.assemble((f"{number:>3}  ", "bold"), work_text(each.work), (where, "dim"))
        # None where the log does not record them; a call without arguments has an empty tuple.
        arguments = launch.arguments
        passed = "arguments not known" if arguments is None else ", ".join(map(_argument, arguments))
        yield indented(Text(passed, style="dim"), 5)
        if launch.call:
            yield indented(Text(fmt.one_line(launch.call, 600)), 5)
    yield from more(len(launches), "call", "--all", most=most, before="")


def _argument(argument: Argument) -> str:
    by = fmt.framed("", argument.keyword, "=")
    if not argument.tensor:
        return fmt.one_line(f"{by}{argument.value or argument.name}", 60)
    return f"{fmt.one_line(f'{by}{argument.name}', 30)} {fmt.tensor(argument.dtype, argument.shape)}"


def line_screen(document: LineDocument) -> Iterator[RenderableType]:
    """Show the kernels that come from some source lines, with the other lines in each; if there are none, show why."""
    yield from emitted_for(document.target_sentence)
    places = {place for each in document.kernels for place in each.row.kernel.lines}
    for place in sorted_places(filter(document.place.has_place, places)):
        line = Text(place_text(place, document.listings, document.cwd), style="bold")
        line.overflow, line.no_wrap = "ellipsis", True
        yield line
    if not document.parts:
        yield Text(fmt.one_line(document.place.text), style="bold")
        yield Text(fmt.one_line(f"No kernel contains this line. {document.why}", 900))
    for part in document.parts:
        yield part_title(part.part, document.cwd)
        for each in part.kernels:
            yield from _of_line(document, each)
    yield from basis_line(document.target_gpu)


def _of_line(document: LineDocument, each: KernelAtLine) -> Iterator[RenderableType]:
    kernel, nodes = each.row.kernel, each.row.nodes
    yield item(Text(fmt.one_line(each.row.label), style="bold cyan"))
    # A kernel may serve several layers, so that a line of one of them is behind some of its calls only.
    some = 0 < len(each.launches) < kernel.calls
    calls = f", {len(each.launches)} of its {fmt.count(kernel.calls, 'call')}" if some else ""
    yield _fact("work", f"{work_text(each.work)} ({language(kernel)}{calls})")
    if each.nodes:
        # "2 of 4 nodes" only where the kernel has nodes of other lines, too.
        whole = len(nodes) if len(each.nodes) < len(nodes) else 0
        yield _fact("this line", f"{nodes_text(each.nodes, whole)}")
    yield from _places(document, "also from", each.others, _MOST, "no other line")


def source_screen(document: KernelsDocument) -> Iterator[RenderableType]:
    """Print the code of kernels, each passage below its source line; do not cut lines of code."""
    for part in document.parts:
        for row in part.rows:
            kernel = row.kernel
            mark = "//" if kernel.language == "cpp" else "#"
            title = f"{mark} {fmt.one_line(kernel.name)}: {fmt.one_line(part.name)}, {language(kernel)}"
            title += code_note(document.target_gpu) if kernel.source else ""
            if not kernel.source:
                yield Verbatim(Text(f"{title}: {_no_source(kernel.language)}\n", style="dim"))
                continue
            yield Verbatim(Text(title, style="bold"))
            # Code without marks would look as if it came from no line.
            if not kernel.statements:
                yield Verbatim(Text(f"{mark} torch does not record the source line of each statement", style="dim"))
            code = source_text(kernel, document.listings, document.cwd)
            yield highlighted(f"{code.rstrip()}\n", _LEXERS.get(kernel.language, "python"))


def _no_source(written_in: str) -> str:
    if written_in == "external":
        return "a library function; torch generates no code for it"
    return "its code is not in the log"


def wrapper_screen(document: WrappersDocument) -> Iterator[RenderableType]:
    """Print the wrapper of each graph part: the function that calls its kernels."""
    note = code_note(document.target_gpu)
    for each in document.wrappers:
        yield Verbatim(Text(f"# {fmt.plain(each.graph)} {each.stage}{note}", style="bold"))
        yield highlighted(f"{fmt.plain(each.text).rstrip()}\n", "python")


def dump_screen(dumped: Dumped) -> Iterator[RenderableType]:
    """Show the folder, the target GPU, the files of each graph part, what is left out and why, and how to run them."""
    where = fmt.plain(str(dumped.folder))
    yield Text.assemble((where, "bold"), f"  {fmt.count(len(dumped.files), 'file')} written")
    yield from emitted_for(dumped.target_sentence)
    for part in dumped.parts[:MOST]:
        yield item(Text(_part(part)))
    yield from more(len(dumped.parts), "graph part", "index.json")
    todo = _todo(dumped)
    yield fix(f"{todo}  (on such a GPU)" if todo and dumped.target_gpu else todo)
    left = dumped.left_out
    if left:
        yield section("Not written")
    for each in left[:MOST]:
        yield item(Text(fmt.one_line(each.name, 70)))
        yield hanging(each.why)
    yield from more(len(left), "of them", "index.json")


def _part(part: DumpedPart) -> str:
    files = sum(1 for each in part.kernels if each.file)
    stages = sum(len(each.code) for each in part.kernels)
    compared = "compared with eager" if not part.compared else f"not compared with eager: {part.compared}"
    compiled = fmt.framed(", ", fmt.some(stages, "file"), " of compiled code")
    contents = f"{fmt.count(files, 'kernel')}{compiled}; wrapper, {compared}" if part.wrapper else "nothing"
    return fmt.one_line(f"{part.folder}/  graph {part.graph}, {part.stage}: {contents}")


def _todo(dumped: Dumped) -> str:
    first = next((part for part in dumped.parts if part.wrapper), None)
    if first:
        return f"python {dumped.folder / first.folder / 'wrapper.py'}"
    return ""
