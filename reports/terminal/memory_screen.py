"""Screen of `ctrace memory`: the peak, what is alive then, and what compiled holds that eager does not."""

from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.facts.memory_facts import (
    AliveMemory,
    FitDocument,
    FoundMemory,
    HeldMemory,
    LineMemory,
    MemoryOption,
    MemoryPeak,
    SavedMemory,
    StepMemoryDocument,
)
from ctrace.inspector.grouping import grouped
from ctrace.inspector.knowledge.counting import named
from ctrace.reports import format as fmt
from ctrace.reports.terminal.widgets import WIDE, columned, hanging, more, section

_MOST = 12
"""The most lines of a table."""
# Chosen: what differs from eager, or stays alive, comes below the table of the peak, on the same page.
_FEW = 6
_LITTLE = 0.01
"""The share of the peak below which a difference is not shown."""
# Chosen: a line of source beside its place and its numbers in 120 columns.
_SOURCE = 60
_NARROW, _WIDE_PLACE = 18, 40
"""The columns of a place in a table, on a narrow and on a wide screen."""
_MUCH = 32 << 20
"""The growth of a process that is worth a line: less is what allocators keep."""


def memory_screen(document: StepMemoryDocument, width: int) -> Iterator[RenderableType]:
    """Show where the memory goes."""
    found, cwd = document.found, document.cwd
    rank = "" if document.world is None else f", rank {document.rank} of {document.world}"
    peak = f"PEAK {fmt.memory(found.peak.bytes)}"
    name = f"{fmt.one_line(document.target, 200)}{rank}"
    # What ended the step comes first, since the peak is only that of what ran before.
    if found.is_cut_short:
        yield Text.assemble(("FAILED", "bold"), "  ", (name, "bold"))
        yield from _problems(found)
        yield Text(f"\n{peak} until then", style="bold")
    else:
        yield Text.assemble((peak, "bold"), "  ", (name, "bold"))
    yield Text(_answer(found, cwd))
    yield Text(_beside_eager(found, cwd))
    yield from _kinds(found)
    yield section("Alive at the peak")
    yield columned(
        width, ("line", "", "kind", "tensors", ">bytes"), [_alive_row(each, cwd, width) for each in found.alive[:_MOST]]
    )
    yield from more(len(found.alive), "line", most=_MOST)
    if found.unattributed_bytes:
        yield hanging(f"{_signed(found.unattributed_bytes)} belong to none of these")
    yield from _options(found, cwd)
    yield from _growth(found, cwd)
    yield from _differences(found, cwd, width)
    yield from _saved(found, cwd, width)
    if not found.is_cut_short:
        yield from _problems(found)
    yield Text(f"\n{_how(found)}", style="dim")


def _problems(found: FoundMemory) -> Iterator[RenderableType]:
    for problem in found.problems:
        yield hanging(f"! {problem}", style="yellow")


def fit_screen(document: FitDocument, width: int) -> Iterator[RenderableType]:
    """Show the largest size that fits, and the line that limits it."""
    name = fmt.one_line(document.target, 200)
    limit = f"{fmt.memory(document.limit_bytes)} of {fmt.one_line(document.device, 60)}"
    if document.fits is None:
        yield Text.assemble((f"FITS, every {document.what} that was tried", "bold"), "  ", (name, "bold"))
    elif document.fits:
        yield Text.assemble((f"LARGEST {document.what}: {document.fits}", "bold"), "  ", (name, "bold"))
    else:
        yield Text.assemble(("DOES NOT FIT", "bold"), "  ", (name, "bold"))
    if document.peak_bytes is not None:
        yield Text(f"It needs {fmt.memory(document.peak_bytes)}; there are {limit}.")
    if document.least_seconds is not None:
        flops = fmt.flops(round(sum(each.flops for each in document.work)))
        yield Text(
            f"A step of it takes at least {fmt.seconds(document.least_seconds)}: {flops} of matrix products, attention "
            "and convolutions at the highest rate of the GPU."
        )
    if document.over_bytes is not None:
        more_needs = f"The next size that was tried needs {fmt.memory(document.over_bytes)}"
        yield Text(f"{more_needs}, of {limit}{_limited(document)}.")
    yield section("Tried")
    # A search jumps between sizes, in an order that says nothing.
    rows = [(str(each.size), "", fmt.memory(each.bytes)) for each in sorted(document.tried, key=lambda each: each.size)]
    yield columned(width, (document.what, "", ">peak"), rows)
    left = "the rounding of the allocator, workspaces of libraries, and what the driver keeps of a GPU"
    yield Text(f"\nComputed without weights, for code of the CPU; without {left}", style="dim")


def _limited(document: FitDocument) -> str:
    most = document.limiting
    if most is None:
        return ""
    source = fmt.framed(" `", fmt.one_line(most.source, _SOURCE), "`")
    held = f"{fmt.memory(most.bytes)} ({most.kind})"
    return f"; most of it, {held}, is of {_line(most.file, most.line, document.cwd)}{source}"


def _answer(found: FoundMemory, cwd: str) -> str:
    peak = found.peak
    where = "in the step of the optimizer" if peak.part == "optimizer" else f"in the {peak.part}"
    return f"Reached {where}, at {_at(peak.at, cwd)}{_most(found.alive, peak, cwd)}."


def _most(alive: Iterable[AliveMemory], peak: MemoryPeak, cwd: str) -> str:
    """Name the line that holds most at a peak, and of which kinds that is."""
    lines: dict[tuple[str | None, int | None], dict[str, int]] = {}
    for each in alive:
        kinds = lines.setdefault((each.file, each.line), {})
        kinds[each.kind] = kinds.get(each.kind, 0) + each.bytes
    if not lines:
        return ""
    (file, line), kinds = max(lines.items(), key=lambda each: sum(each[1].values()))
    total = sum(kinds.values())
    of = ", ".join(sorted(kinds, key=lambda each: -kinds[each]))
    return f"; most of it, {fmt.memory(total)} ({_share(total, peak)}), is of {_line(file, line, cwd)} ({of})"


def _beside_eager(found: FoundMemory, cwd: str) -> str:
    eager, peak = found.eager_peak, found.peak
    if eager is None:
        return ""
    change = peak.bytes - eager.bytes
    if not eager.bytes or abs(change) <= _LITTLE * eager.bytes:
        than = "as much as compiled"
    else:
        than = f"compiled needs {abs(change) / eager.bytes:.0%} {'more' if change > 0 else 'less'}"
    most = _most(found.eager_alive, eager, cwd)
    where = f"Eager: {fmt.memory(eager.bytes)} in the {eager.part}, at {_at(eager.at, cwd)}: {than}{most}."
    if found.computed_peak is not None:
        where += f" Computed for compiled: {fmt.memory(found.computed_peak.bytes)}."
    return where


def _kinds(found: FoundMemory) -> Iterator[RenderableType]:
    totals: dict[str, int] = {}
    for each in found.alive:
        totals[each.kind] = totals.get(each.kind, 0) + each.bytes
    parts = [f"{kind} {fmt.memory(size)}" for kind, size in sorted(totals.items(), key=lambda each: -each[1])]
    yield Text(f"By kind: {', '.join(parts)}")


def _alive_row(each: AliveMemory, cwd: str, width: int) -> tuple[str, ...]:
    tensors, source = str(each.count), each.source
    if each.shape is not None:
        tensors = f"{fmt.repeated(each.count, '', ' × ')}{fmt.tensor(each.dtype, each.shape)}"
    # Memory that no line of the user makes has only a function of torch to name it.
    if not source and each.file is None:
        source = each.function or ""
    place = _cell(each.file, each.line, cwd, width)
    return place, fmt.one_line(source, _SOURCE), each.kind, tensors, fmt.memory(each.bytes)


def _options(found: FoundMemory, cwd: str) -> Iterator[RenderableType]:
    """Show what was tried, with its peak and what it computes again."""
    if not found.options:
        return
    yield section("What lowers the peak, tried")
    for each in found.options:
        yield from _option(each, found, cwd)


def _option(each: MemoryOption, found: FoundMemory, cwd: str) -> Iterator[RenderableType]:
    at = f" ({_line(each.file, each.line, cwd)})" if each.line is not None else ""
    if each.peak_bytes is None:
        yield hanging(f"{each.text}{at}: {'failed' if each.tried else 'not tried'}: {each.why_not}", style="dim")
        return
    # Computed beside computed: a measured peak has what the allocator adds.
    before, after = (found.computed_peak or found.peak).bytes, each.computed_bytes or each.peak_bytes
    change = f"{fmt.memory(before)} -> {fmt.memory(after)}"
    if each.measured:
        before, after = found.peak.bytes, each.peak_bytes
        change += f", measured {fmt.memory(before)} -> {fmt.memory(after)}"
    cost = ""
    if each.extra_flops and found.flops:
        cost = f", +{each.extra_flops / found.flops:.0%} FLOPs"
    if each.gradient_change is not None:
        cost += f", gradients change by {each.gradient_change:.2g} of their norm"
    if after < (1 - _LITTLE) * before:
        yield hanging(f"{each.text}{at}: peak {change}{cost}", "green")
    else:
        yield hanging(f"{each.text}{at}: peak {change}: does not help", "dim")


def _growth(found: FoundMemory, cwd: str) -> Iterator[RenderableType]:
    """Show what the calls leave behind."""
    if not found.growth:
        return
    last, first = found.growth[-1], found.growth[0]
    grown = last.bytes - first.bytes
    is_program = found.program is not None
    calls = fmt.count(len(found.growth), "step" if is_program else "more equal call")
    if not found.held or grown <= 0:
        yield section(f"After {calls}: nothing more stays alive")
    else:
        # Growth is counted from the end of the first call, so one call fewer made it.
        each = grown // max(len(found.growth) - 1, 1)
        yield section(f"After {calls}: {fmt.memory(last.bytes)} more stay alive, {fmt.memory(each)} a call")
    for held in found.held[:_FEW]:
        yield hanging(_held(held, cwd))
    yield from more(len(found.held), "line", most=_FEW)
    yield from _host_growth(found)


def _host_growth(found: FoundMemory) -> Iterator[RenderableType]:
    """Say how much larger the process is; the first step of a program compiles and makes the optimizer's state."""
    last, first = found.growth[-1], found.growth[0]
    if last.host_bytes is None or first.host_bytes is None:
        return
    is_program = found.program is not None
    host, known = last.host_bytes, last.bytes
    if is_program:
        # Compiling and the state of the optimizer would be most of the growth.
        host, known = host - first.host_bytes, known - first.bytes
    if host > max(2 * known, _MUCH):
        yield hanging(f"The process has {fmt.memory(host)} more than {_BEFORE[is_program]}.")


_BEFORE = {True: "after the first step", False: "before these calls"}


def _held(held: HeldMemory, cwd: str) -> str:
    made = f"{fmt.memory(held.bytes)} in {fmt.count(held.count, 'tensor')} made at {_line(held.file, held.line, cwd)}"
    if not held.holder:
        return f"{made}: what holds them was not found"
    at = f" ({_line(held.holder_file, held.holder_line, cwd)})" if held.holder_line is not None else ""
    return f"{held.holder}{at} holds {made}"


def _differences(found: FoundMemory, cwd: str, width: int) -> Iterator[RenderableType]:
    """Show the lines that hold more compiled than in eager, or less."""
    least = _LITTLE * found.peak.bytes
    some = [each for each in found.lines if abs(each.bytes - each.eager_bytes) > least]
    if not some:
        return
    yield section("Where compiled and eager differ, each at its own peak")
    rows = [
        (
            _cell(each.file, each.line, cwd, width),
            fmt.one_line(each.source, _SOURCE),
            fmt.memory(each.bytes),
            fmt.memory(each.eager_bytes),
            _signed(each.bytes - each.eager_bytes),
        )
        for each in some[:_FEW]
    ]
    yield columned(width, ("line", "", ">compiled", ">eager", ">difference"), rows)
    yield from more(len(some), "line", most=_FEW)
    for each in _only_saved(found.lines, least)[:_FEW]:
        yield hanging(
            f"Compiled saves {fmt.memory(each.saved_bytes - each.eager_saved_bytes)} at "
            f"{_line(each.file, each.line, cwd)} that eager does not"
        )


def _only_saved(lines: Iterable[LineMemory], least: float) -> list[LineMemory]:
    some = [each for each in lines if each.saved_bytes - each.eager_saved_bytes > least]
    return sorted(some, key=lambda each: each.eager_saved_bytes - each.saved_bytes)


def _saved(found: FoundMemory, cwd: str, width: int) -> Iterator[RenderableType]:
    if not found.saved:
        return
    compiled, eager = fmt.memory(found.saved_bytes), fmt.memory(found.eager_saved_bytes)
    yield section(f"Saved for the backward: {compiled} compiled, {eager} in eager")
    alike = grouped(found.saved, lambda each: _likeness(each))
    groups = sorted(alike.values(), key=lambda some: -sum(each.bytes for each in some))
    rows = [_saved_row(some, cwd, width) for some in groups[:_FEW]]
    yield columned(width, ("line", "tensors", "in eager", ">to recompute", ">bytes"), rows)
    yield from more(len(groups), "row", most=_FEW)
    # The table has the tensors that a graph saves, and the sum has more.
    if found.saved_bytes > (1 + _LITTLE) * sum(each.bytes for each in found.saved):
        yield hanging("Results of a graph that are also saved, and what eager code saves, are not in this table.")
    reasons: dict[str, int] = {}
    for each in found.saved:
        reasons[each.reason] = reasons.get(each.reason, 0) + each.bytes
    for reason, size in sorted(reasons.items(), key=lambda each: -each[1]):
        if reason:
            yield hanging(f"{fmt.memory(size)}: {reason}", style="dim")


def _likeness(each: SavedMemory) -> tuple[object, ...]:
    """Return what tensors of one row have in common: layers that repeat save many alike."""
    is_known = each.recompute_flops is not None
    return each.file, each.line, each.shape, each.dtype, each.eager_saves, each.reason, is_known


def _saved_row(some: list[SavedMemory], cwd: str, width: int) -> tuple[str, ...]:
    first = some[0]
    cost = "cannot be"
    if first.recompute_flops is not None:
        cost = fmt.flops(int(sum(each.recompute_flops or 0 for each in some)))
    saves = "saved, too" if first.eager_saves else "not saved"
    tensor = fmt.tensor(first.dtype, first.shape)
    tensors = f"{len(some)} × {tensor}" if len(some) > 1 else f"{first.name} {tensor}"
    return _cell(first.file, first.line, cwd, width), tensors, saves, cost, fmt.memory(sum(each.bytes for each in some))


def _how(found: FoundMemory) -> str:
    count = f"{found.graphs} {named(found.graphs, 'compiled graph')}"
    if found.peak.measured:
        how = f"Measured on {found.device}; lines and kinds are computed."
        return f"{count} · {how}"
    left = " and ".join(fmt.one_line(each, 200) for each in found.left_out)
    return (
        f"{count} · computed for {found.device} from the sizes of tensors, without {left}; --build measures the peaks"
    )


def _share(size: int, peak: MemoryPeak) -> str:
    if peak.bytes:
        return f"{size / peak.bytes:.0%}"
    return "0%"


def _signed(size: int) -> str:
    return f"{'+' if size >= 0 else '-'}{fmt.memory(abs(size))}"


def _line(file: str | None, line: int | None, cwd: str) -> str:
    if file is None:
        return "no line of yours"
    return fmt.place(file, line, cwd)


def _cell(file: str | None, line: int | None, cwd: str, width: int) -> str:
    """Write a line for a column: folders are dropped first, since tables cut what is too long in the middle."""
    if file is None:
        return _line(None, None, cwd)
    return fmt.short_place(file, line, cwd, _NARROW if width < WIDE else _WIDE_PLACE)


def _at(text: str, cwd: str) -> str:
    file, colon, line = text.rpartition(":")
    if colon and line.isdecimal():
        return fmt.place(file, int(line), cwd)
    return fmt.one_line(text, 80) or "no line of yours"
