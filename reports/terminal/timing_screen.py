"""Screen of one configuration: the verdict, every scenario and part, where a call goes, and how it was measured.

Several configurations make a table: the best one first, one row each, and why they differ.
"""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.features.time.timing_differences import SpeedDifference, differences
from ctrace.inspector.features.time.timing_model import MeasuredConfiguration, TimedPart, Timings
from ctrace.inspector.features.time.timing_view import (
    EAGER,
    Breakdown,
    Ranking,
    Share,
    break_even,
    breakdowns,
    kernels_a_call,
    ranking,
)
from ctrace.inspector.findings.ratios import RatioVerdict
from ctrace.reports import format as fmt
from ctrace.reports.format import duration
from ctrace.reports.terminal.widgets import Verbatim, columned, fix, hanging, item, section
from ctrace.reports.wording import timing_wording as words

_STYLES = {
    RatioVerdict.FASTER: "bold green",
    RatioVerdict.SLOWER: "bold red",
    RatioVerdict.NO_DIFFERENCE: "bold",
    RatioVerdict.UNDECIDED: "bold yellow",
}


_MESSAGE = 300


_TABLE = "AUTOTUNE "
"""How torch's table of choices begins (2.11 to 2.15, _inductor/select_algorithm.py)."""


_WIDE = 125
"""Width from which one table holds all columns."""


_REASONS = 4


_ROW_MESSAGE = 200


def timing_screen(timings: Timings, width: int) -> Iterator[RenderableType]:
    """Show how fast a model is when compiled, compared with eager."""
    measured = timings.configurations[0]
    yield headline(timings.target, measured)
    yield from trouble(measured)
    for what, todo in words.reasons(measured):
        yield hanging(what, "yellow")
        yield fix(todo)
    if any(part.speedup is not None for part in measured.parts):
        yield section("Times: the median, and the range of the speed-up")
        yield _parts(measured.parts, width)
    yield from compile_lines(measured)
    for each in breakdowns(measured):
        yield from breakdown_section(each, width, len(measured.parts))
    yield from footer(measured)


def headline(target: str, measured: MeasuredConfiguration) -> Text:
    """Write the verdict on the first part, the target, and the answer in one sentence."""
    part = measured.first
    name = fmt.one_line(target, 200)
    if part is None or part.speedup is None:
        why = "failed before the first round" if not measured.stopped else measured.stopped
        return Text.assemble(
            ("NOT MEASURED", "bold red"), "  ", (name, "bold"), "\n", f"No times: {fmt.one_line(why, 200)}."
        )
    verdict = part.speedup.verdict
    scenario = (
        f" Scenario {fmt.one_line(part.scenario, 40)}." if len({each.scenario for each in measured.parts}) > 1 else ""
    )
    return Text.assemble(
        (words.HEADS[verdict], _STYLES[verdict]), "  ", (name, "bold"), "\n", f"{words.answer(part)}{scenario}"
    )


def trouble(measured: MeasuredConfiguration) -> Iterator[RenderableType]:
    """Say what failed, and what stopped the measurement early."""
    if measured.stopped and measured.first is not None:
        yield Text(f"! Not everything was measured: {fmt.one_line(measured.stopped, 200)}.", style="yellow")
    for each in measured.failures:
        scenario = f"scenario {fmt.one_line(each.scenario, 40)}: " if each.scenario is not None else ""
        side = {"eager": "without torch.compile: ", "run": "compiled: "}.get(each.phase, "")
        first = next((line for line in each.message.splitlines() if line.strip()), "")
        yield Text(f"! {scenario}{side}{fmt.one_line(f'{each.type}: {first}', _MESSAGE)}", style="red")
        if each.file is not None:
            yield hanging(f"at {fmt.place(each.file, each.line, '')}")
        yield fix(each.todo)


def _parts(parts: tuple[TimedPart, ...], width: int) -> RenderableType:
    columns = ("scenario", "part", ">eager", ">compiled", ">speed-up", ">peak memory")
    rows = []
    for part in parts:
        peaks = f"{_memory(part.eager_peak)} → {_memory(part.compiled_peak)}"
        eager = duration(None if part.eager is None else part.eager.median)
        compiled = duration(None if part.compiled is None else part.compiled.median)
        verdict = words.speedup(part.speedup)
        unknown = part.eager_peak is None and part.compiled_peak is None
        rows.append(
            (fmt.one_line(part.scenario), part.part, eager, compiled, verdict, "not measured" if unknown else peaks)
        )
    return columned(width, columns, rows)


def _memory(size: int | None) -> str:
    return "?" if size is None else fmt.memory(size)


def compile_lines(measured: MeasuredConfiguration) -> Iterator[RenderableType]:
    """Say what compiling takes, and when it has paid for itself."""
    if measured.compile_seconds is None:
        yield Text("\nCompile time: not measured")
        return
    line = f"\nCompile time {fmt.seconds(measured.compile_seconds)}, with empty caches"
    if measured.warm_seconds is not None:
        line += f"; {fmt.seconds(measured.warm_seconds)} with filled ones"
    calls = break_even(measured)
    part = measured.first
    if calls is not None:
        noun = "step" if part is not None and part.part == "step" else "call"
        line += f". It pays for itself after {calls:,} {noun if calls == 1 else f'{noun}s'}."
    elif part is not None and part.speedup is not None and part.speedup.verdict is not RatioVerdict.UNDECIDED:
        line += ". It never pays for itself."
    else:
        line += "."
    yield Text(line)


def breakdown_section(found: Breakdown, width: int, parts: int) -> Iterator[RenderableType]:
    """Show where the time of a call goes."""
    of = f" of {fmt.one_line(found.scenario, 30)}" if parts > 1 else ""
    yield section(f"Where a {'step' if found.part == 'step' else 'call'}{of} goes, with torch's profiler on")
    if found.is_disturbed:
        yield Text(words.disturbed(found))
        return
    columns = ("", ">eager", ">", ">compiled", ">")
    rows = [_share(each, found.calls) for each in found.program]
    rows.append(("= the program", *_time(found.calls.eager), *_time(found.calls.compiled)))
    rows += [_share(each, found.calls) for each in found.gpu]
    launched = found.launched
    if launched.compiled is not None:
        rows.append((launched.name, _number(launched.eager), "", _number(launched.compiled), ""))
    yield columned(width, columns, rows)


def _share(each: Share, calls: Share) -> tuple[str, str, str, str, str]:
    return (each.name, *_time(each.eager, calls.eager), *_time(each.compiled, calls.compiled))


def _time(seconds: float | None, whole: float | None = None) -> tuple[str, str]:
    if seconds is None:
        return "", ""
    return duration(seconds), f"{seconds / whole:.0%}" if whole else ""


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


def footer(measured: MeasuredConfiguration) -> Iterator[RenderableType]:
    """Say how it was measured."""
    found = words.conditions(measured)
    if not found:
        return
    yield Text(f"\n{fmt.one_line(found, 300)}", style="dim")
    part = measured.first or next(iter(measured.parts), None)
    if part is not None:
        yield Text(f"Warming up: {words.warming(part)}.", style="dim")
    if part is not None and part.speedup is not None:
        confidence = part.speedup.ratio.confidence
        yield Text(
            "Eager and compiled alternate within each round, the device synchronized. The range holds the true median "
            f"with {confidence:.1%} confidence.",
            style="dim",
        )
    differing = next((each for each in measured.differences if each.difference is not None), None)
    if differing is not None and differing.difference is not None:
        yield Text(
            f"Largest difference from eager's results: {differing.difference:.1e} of the tensor's largest value.",
            style="dim",
        )


def autotuning_lines(timings: Timings, *, verbose: bool) -> Iterator[RenderableType]:
    """Show torch's tables, or say how many there are."""
    tables = sum(text.startswith(_TABLE) for each in timings.configurations for text in each.printed)
    if tables and not verbose:
        text = f"\nTorch autotuned {fmt.count(tables, 'operation')}: -v shows what it printed."
        yield Text(text, style="dim")
    for each in timings.configurations if verbose else ():
        if each.printed:
            yield section(f"Printed by torch while it autotuned {fmt.one_line(each.configuration.name, 60)}")
            yield Verbatim(Text(fmt.plain("".join(each.printed)).rstrip()))


def table_screen(timings: Timings, width: int) -> Iterator[RenderableType]:
    """Compare configurations: the answer, the table, and below it why they differ."""
    found = ranking(timings)
    yield _headline(timings, found)
    yield from _tables(timings, width)
    for measured in timings.configurations:
        yield from _row_trouble(measured)
    yield from _why(timings)
    lead = found.lead
    if lead is not None:
        for what, todo in words.reasons(lead):
            yield hanging(what, "yellow")
            yield fix(todo)
        yield from footer(lead)
    if len([each for each in timings.configurations if each.first is not None]) > 1:
        yield Text(
            f"Each configuration ran in its own process, beside eager. Eager differed by {found.noise - 1:.0%} between "
            "them; smaller differences between rows do not count.",
            style="dim",
        )


def _headline(timings: Timings, found: Ranking) -> Text:
    name = (fmt.one_line(timings.target, 200), "bold")
    if found.lead is None:
        return Text.assemble(("NOT MEASURED", "bold red"), "  ", name, "\nNo configuration was measured.")
    part = found.lead.first
    sentence = "" if part is None else words.answer(part, found.lead.configuration.name)
    if found.best == EAGER:
        return Text.assemble(
            ("BEST eager", "bold red"), "  ", name, f"\nEvery configuration is slower than eager. {sentence}"
        )
    if found.best is not None:
        return Text.assemble((f"BEST {fmt.one_line(found.best, 60)}", "bold green"), "  ", name, f"\n{sentence}")
    tied = fmt.listed((fmt.one_line(each, 60) for each in found.tied), 8)
    return Text.assemble(
        ("NO SINGLE BEST", "bold yellow"), "  ", name, f"\nCannot be distinguished: {tied}. {sentence}"
    )


def _tables(timings: Timings, width: int) -> Iterator[RenderableType]:
    speed = (">time", ">against eager", ">compile", ">warm", ">peak")
    made = (">graphs", ">kernels", "CUDA graphs", ">difference")
    if width >= _WIDE:
        columns = ("configuration", *speed, *made)
        rows = [
            _eager(timings, len(columns)),
            *((_name(each), *_speed(each), *_made(each)) for each in timings.configurations),
        ]
        yield section("Configurations")
        yield columned(width, columns, rows)
        return
    yield section("Configurations")
    rows = [_eager(timings, 1 + len(speed)), *((_name(each), *_speed(each)) for each in timings.configurations)]
    yield columned(width, ("configuration", *speed), rows)
    yield section("What each compiled")
    yield columned(width, ("configuration", *made), [(_name(each), *_made(each)) for each in timings.configurations])


def _name(measured: MeasuredConfiguration) -> str:
    return fmt.one_line(measured.configuration.name)


def _eager(timings: Timings, columns: int) -> tuple[str, ...]:
    parts = [each.first for each in timings.configurations]
    part = next((each for each in parts if each is not None), None)
    time = duration(None if part is None or part.eager is None else part.eager.median)
    peak = "" if part is None or part.eager_peak is None else fmt.memory(part.eager_peak)
    row = ("eager", time, "", "", "", peak)
    return (*row, *("",) * (columns - len(row)))[:columns]


def _speed(measured: MeasuredConfiguration) -> tuple[str | Text, ...]:
    part = measured.first
    if part is None or part.compiled is None:
        return ("failed" if not measured.stopped else "stopped", "", "", "", "")
    verdict = part.speedup.verdict if part.speedup is not None else RatioVerdict.UNDECIDED
    style = {RatioVerdict.FASTER: "green", RatioVerdict.SLOWER: "red"}.get(verdict, "")
    return (
        duration(part.compiled.median),
        Text(words.speedup(part.speedup), style=style),
        _seconds(measured.compile_seconds),
        _seconds(measured.warm_seconds),
        "not measured" if part.compiled_peak is None else fmt.memory(part.compiled_peak),
    )


def _seconds(value: float | None) -> str:
    return "not measured" if value is None else fmt.seconds(value)


def _made(measured: MeasuredConfiguration) -> tuple[str, ...]:
    made = measured.compiled
    difference = next((each.difference for each in measured.differences), None)
    shown = "not measured" if difference is None else f"{difference:.1e}"
    if made is None:
        return ("", "", "", "")
    kernels = kernels_a_call(measured)
    return (
        str(made.graphs),
        "not measured" if kernels is None else str(kernels),
        words.cuda_graphs(made.cuda_graphs),
        shown,
    )


def _row_trouble(measured: MeasuredConfiguration) -> Iterator[RenderableType]:
    name = _name(measured)
    if measured.stopped:
        yield Text(f"! {name}: {fmt.one_line(measured.stopped, _ROW_MESSAGE)}", style="yellow")
    for each in measured.failures:
        first = next((line for line in each.message.splitlines() if line.strip()), "")
        yield Text(f"! {name}: {fmt.one_line(f'{each.type}: {first}', _ROW_MESSAGE)}", style="red")
        yield fix(each.todo)


def _why(timings: Timings) -> Iterator[RenderableType]:
    found = differences(timings)
    if found:
        yield section(f"Why, against {fmt.one_line(found[0].best, 60)}")
    for each in found:
        yield item(Text(f"{fmt.one_line(each.other, 60)}: {_longer(each.gap)} a call", style="bold"))
        yield from _reasons(each)


def _longer(gap: float) -> str:
    return f"{duration(abs(gap))} {'more' if gap >= 0 else 'less'}"


def _reasons(difference: SpeedDifference) -> Iterator[RenderableType]:
    for each in difference.reasons[:_REASONS]:
        seconds = "" if each.seconds is None else f"{_longer(each.seconds)}: "
        yield hanging(f"{seconds}{each.text}")
    if not difference.reasons:
        yield hanging("no difference in graphs, kernels, launches or CUDA graphs was found")
