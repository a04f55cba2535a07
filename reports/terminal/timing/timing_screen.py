"""Screen of one configuration: the verdict, every scenario and part, where a call goes, and how it was measured."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.features.time.timing_model import MeasuredConfiguration, TimedPart, Timings
from ctrace.inspector.features.time.timing_view import Breakdown, Share, break_even, breakdowns
from ctrace.inspector.findings.ratios import RatioVerdict
from ctrace.reports import format as fmt
from ctrace.reports.terminal.columns import columned
from ctrace.reports.terminal.widgets import fix, hanging, section
from ctrace.reports.wording import timing_wording as words
from ctrace.reports.wording.durations import duration

_STYLES = {
    RatioVerdict.FASTER: "bold green",
    RatioVerdict.SLOWER: "bold red",
    RatioVerdict.NO_DIFFERENCE: "bold",
    RatioVerdict.UNDECIDED: "bold yellow",
}
_MESSAGE = 300


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
