"""Screen of several configurations: the best one first, one row each, and why they differ."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.features.time.timing_differences import SpeedDifference, differences
from ctrace.inspector.features.time.timing_model import MeasuredConfiguration, Timings
from ctrace.inspector.features.time.timing_view import EAGER, Ranking, kernels_a_call, ranking
from ctrace.inspector.findings.ratios import RatioVerdict
from ctrace.reports import format as fmt
from ctrace.reports.terminal.columns import columned
from ctrace.reports.terminal.timing.timing_screen import footer
from ctrace.reports.terminal.widgets import fix, hanging, item, section
from ctrace.reports.wording import timing_wording as words
from ctrace.reports.wording.durations import duration

_WIDE = 125
"""Width from which one table holds all columns."""
_REASONS = 4
_MESSAGE = 200


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
        yield Text(f"! {name}: {fmt.one_line(measured.stopped, _MESSAGE)}", style="yellow")
    for each in measured.failures:
        first = next((line for line in each.message.splitlines() if line.strip()), "")
        yield Text(f"! {name}: {fmt.one_line(f'{each.type}: {first}', _MESSAGE)}", style="red")
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
