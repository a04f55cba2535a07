"""Screens of `ctrace time`, with their sentences.

Of one configuration: the verdict, every scenario and part, where a call goes, and how it was measured.

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
    crowd,
    fixed_costs,
    kernels_a_call,
    ranking,
)
from ctrace.inspector.findings.ratios import Interval, RatioVerdict, SpeedComparison
from ctrace.inspector.knowledge.counting import named
from ctrace.reports import format as fmt
from ctrace.reports.format import digits, duration, times
from ctrace.reports.terminal.widgets import Verbatim, columned, fix, hanging, item, section

_STYLES = {
    RatioVerdict.FASTER: "bold green",
    RatioVerdict.SLOWER: "bold red",
    RatioVerdict.NO_DIFFERENCE: "bold",
    RatioVerdict.UNDECIDED: "bold yellow",
}
# Chosen: the first line of an exception, up to three lines of a terminal.
_MESSAGE = 300
_TABLE = "AUTOTUNE "
"""How torch's table of choices begins (2.11 to 2.15, _inductor/select_algorithm.py)."""
_WIDE = 125
"""Width from which one table holds all columns."""
# Chosen: the reasons with most seconds come first.
_REASONS = 4
# Chosen: below a table, each configuration has a line or two.
_ROW_MESSAGE = 200
HEADS = {
    RatioVerdict.FASTER: "FASTER",
    RatioVerdict.SLOWER: "SLOWER",
    RatioVerdict.NO_DIFFERENCE: "NO MEASURABLE DIFFERENCE",
    RatioVerdict.UNDECIDED: "UNDECIDED",
}
_FIXED = 0.4
"""If fixed costs have at least this share of a call, they explain why compiling does not help."""


def timing_screen(timings: Timings, width: int) -> Iterator[RenderableType]:
    """Show how fast a model is when compiled, compared with eager."""
    measured = timings.configurations[0]
    yield headline(timings.target, measured)
    yield from trouble(measured)
    # Before the numbers, since it says how far they can be trusted.
    for what, todo in reasons(measured):
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
    if len({each.scenario for each in measured.parts}) > 1:
        scenario = f" Scenario {fmt.one_line(part.scenario, 40)}."
    else:
        scenario = ""
    return Text.assemble((HEADS[verdict], _STYLES[verdict]), "  ", (name, "bold"), "\n", f"{answer(part)}{scenario}")


def trouble(measured: MeasuredConfiguration) -> Iterator[RenderableType]:
    """Say what failed, and what stopped the measurement early."""
    if measured.stopped and measured.first is not None:
        yield Text(f"! Not everything was measured: {fmt.one_line(measured.stopped, 200)}.", style="yellow")
    for each in measured.failures:
        scenario = f"scenario {fmt.one_line(each.scenario, 40)}: " if each.scenario is not None else ""
        side = {"eager": "without torch.compile: ", "run": "compiled: "}.get(each.phase, "")
        # Torch's messages go on for pages after their first line.
        first = next((line for line in each.message.splitlines() if line.strip()), "")
        yield Text(f"! {scenario}{side}{fmt.one_line(f'{each.type}: {first}', _MESSAGE)}", style="red")
        if each.file is not None:
            yield hanging(f"at {fmt.place(each.file, each.line, '')}")
        yield fix(each.todo)


def _parts(parts: tuple[TimedPart, ...], width: int) -> RenderableType:
    columns = ("scenario", "part", ">eager", ">compiled", ">speed-up", ">peak memory")
    rows = []
    for part in parts:
        peaks = "not measured"
        if part.eager_peak is not None or part.compiled_peak is not None:
            peaks = " → ".join(fmt.known(each, fmt.memory) for each in (part.eager_peak, part.compiled_peak))
        medians = (fmt.known(each, _median, "not measured") for each in (part.eager, part.compiled))
        rows.append((fmt.one_line(part.scenario), part.part, *medians, speedup(part.speedup), peaks))
    return columned(width, columns, rows)


def _median(calls: Interval) -> str:
    return duration(calls.median)


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
        line += f". It pays for itself after {calls:,} {named(calls, noun)}."
    # An undecided comparison does not say whether compiling pays for itself.
    elif part is not None and part.speedup is not None and part.speedup.verdict is not RatioVerdict.UNDECIDED:
        line += ". It never pays for itself."
    else:
        line += "."
    yield Text(line)


def breakdown_section(found: Breakdown, width: int, parts: int) -> Iterator[RenderableType]:
    """Show where the time of a call goes."""
    of = f" of {fmt.one_line(found.scenario, 30)}" if parts > 1 else ""
    call = "step" if found.part == "step" else "call"
    yield section(f"Where a {call}{of} goes, with torch's profiler on")
    if found.is_disturbed:
        yield Text(disturbed(found))
        return
    columns = ("", ">eager", ">", ">compiled", ">")
    rows = [_share(each, found.calls) for each in found.program]
    rows.append(("= the program", *_time(found.calls.eager), *_time(found.calls.compiled)))
    rows += [_share(each, found.calls) for each in found.gpu]
    launched = found.launched
    if launched.compiled is not None:
        eager, compiled = (fmt.known(each, "{:.0f}".format, "") for each in (launched.eager, launched.compiled))
        rows.append((launched.name, eager, "", compiled, ""))
    yield columned(width, columns, rows)


def _share(each: Share, calls: Share) -> tuple[str, str, str, str, str]:
    return (each.name, *_time(each.eager, calls.eager), *_time(each.compiled, calls.compiled))


def _time(seconds: float | None, whole: float | None = None) -> tuple[str, str]:
    if seconds is None:
        return "", ""
    return duration(seconds), f"{seconds / whole:.0%}" if whole else ""


def footer(measured: MeasuredConfiguration) -> Iterator[RenderableType]:
    """Say how it was measured."""
    found = conditions(measured)
    if not found:
        return
    yield Text(f"\n{fmt.one_line(found, 300)}", style="dim")
    # A part that has no verdict still tells how it was warmed up.
    part = measured.first or next(iter(measured.parts), None)
    if part is not None:
        yield Text(f"Warming up: {warming(part)}.", style="dim")
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
        # Below the table, since its rows have no room for a message.
        yield from _row_trouble(measured)
    yield from _why(timings)
    lead = found.lead
    if lead is not None:
        for what, todo in reasons(lead):
            yield hanging(what, "yellow")
            yield fix(todo)
        yield from footer(lead)
    # The noise is known only where eager was measured in several processes.
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
    sentence = "" if part is None else answer(part, found.lead.configuration.name)
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
    time, peak = "not measured", ""
    if part is not None:
        time, peak = fmt.known(part.eager, _median, time), fmt.known(part.eager_peak, fmt.memory, "")
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
        Text(speedup(part.speedup), style=style),
        fmt.seconds(measured.compile_seconds),
        fmt.seconds(measured.warm_seconds),
        fmt.known(part.compiled_peak, fmt.memory, "not measured"),
    )


def _made(measured: MeasuredConfiguration) -> tuple[str, ...]:
    made = measured.compiled
    difference = next((each.difference for each in measured.differences), None)
    if made is None:
        return ("", "", "", "")
    kernels = fmt.known(kernels_a_call(measured), otherwise="not measured")
    shown = fmt.known(difference, "{:.1e}".format, "not measured")
    return (str(made.graphs), kernels, cuda_graphs(made.cuda_graphs), shown)


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
    if gap >= 0:
        return f"{duration(abs(gap))} more"
    return f"{duration(-gap)} less"


def _reasons(difference: SpeedDifference) -> Iterator[RenderableType]:
    for each in difference.reasons[:_REASONS]:
        seconds = fmt.framed("", fmt.known(each.seconds, _longer, ""), ": ")
        yield hanging(f"{seconds}{each.text}")
    if not difference.reasons:
        yield hanging("no difference in graphs, kernels, launches or CUDA graphs was found")


def speedup(found: SpeedComparison | None) -> str:
    """Write a comparison for a table: `1.42x (1.38 to 1.47)`."""
    if found is None:
        return "not measured"
    ratio = found.ratio
    return f"{times(ratio.median)} ({digits(ratio.low)} to {digits(ratio.high)})"


def answer(part: TimedPart, name: str = "Compiled") -> str:
    """Answer whether compiling helps, in one sentence."""
    found, eager, compiled = part.speedup, part.eager, part.compiled
    if found is None or eager is None or compiled is None:
        return "No round was measured."
    both = f"{duration(compiled.median)} against {duration(eager.median)}{_unit(part)}"
    rounds = fmt.count(found.ratio.rounds, "round")
    match found.verdict:
        case RatioVerdict.FASTER:
            return f"{name} is {times(found.ratio.median)} faster than eager ({_span(found.ratio, rounds)}): {both}."
        case RatioVerdict.SLOWER:
            slower = inverse(found.ratio)
            return f"{name} is {times(slower.median)} slower than eager ({_span(slower, rounds)}): {both}."
        case RatioVerdict.NO_DIFFERENCE:
            return f"No measurable difference: {both} ({_range(found.ratio, rounds)})."
    if not found.ratio.is_sure:
        return f"{rounds.capitalize()} cannot decide: {both}."
    return f"The times vary too much to decide: {both} ({_range(found.ratio, rounds)})."


def _unit(part: TimedPart) -> str:
    return {"step": " a step", "backward": " a backward"}.get(part.part, " a call")


def _span(ratio: Interval, rounds: str) -> str:
    return f"{digits(ratio.low)} to {digits(ratio.high)} over {rounds}"


def _range(ratio: Interval, rounds: str) -> str:
    return f"{digits(ratio.low)}x to {digits(ratio.high)}x over {rounds}"


def inverse(ratio: Interval) -> Interval:
    """Turn "0.5 times as fast" into "2 times slower"."""
    # The ends change places: the inverse of the highest ratio is the lowest.
    return Interval(1 / ratio.median, 1 / ratio.high, 1 / ratio.low, ratio.rounds, ratio.confidence)


def reasons(measured: MeasuredConfiguration) -> list[tuple[str, str]]:
    """Return what prevents a better or a more certain result, the most important first, each with what to do."""
    part = measured.first
    if part is None or part.speedup is None:
        return []
    verdict, found = part.speedup.verdict, []
    if measured.compiled is not None and not measured.compiled.graphs:
        found.append(("Dynamo captured no graph: both sides run eagerly.", "see ctrace explain"))
    if verdict is RatioVerdict.UNDECIDED:
        found += _undecided(measured, part)
    if verdict in (RatioVerdict.SLOWER, RatioVerdict.NO_DIFFERENCE):
        found += _too_short(measured, part)
    return found + _of_model(measured, part)


def _undecided(measured: MeasuredConfiguration, part: TimedPart) -> list[tuple[str, str]]:
    # First, since with so few rounds an idle machine would not decide either.
    if part.speedup is not None and not part.speedup.ratio.is_sure:
        return [("So few rounds cannot tell noise from a difference.", "use --rounds 6 or more")]
    crowded = crowd(measured)
    if crowded is not None and measured.setup is not None:
        what = (
            f"Other programs use this machine: {measured.load:.1f} processes wanted its {measured.setup.cores} cores."
        )
        fewer = ", or measure with --threads 1, which waits for fewer cores" if measured.setup.threads > 1 else ""
        return [(what, f"end them{fewer}")]
    return [("Something else uses this machine, or its clock changes.", "measure again, or with more --rounds")]


def disturbed(found: Breakdown) -> str:
    """Say why there is no table of where the time of a call goes."""
    called, timed = found.calls, found.timed
    pairs = (("eager", called.eager, timed.eager), ("compiled", called.compiled, timed.compiled))
    known = [(side, profiled, alone) for side, profiled, alone in pairs if profiled is not None and alone]
    # The side that was slowed down most shows it best.
    side, profiled, alone = max(known, key=lambda one: one[1] / one[2])
    return (
        f"Not measured: profiled {side} calls took {duration(profiled)}, timed ones {duration(alone)}. The profiler "
        "does not slow calls down that much: something else used the machine. Measure again."
    )


def _too_short(measured: MeasuredConfiguration, part: TimedPart) -> list[tuple[str, str]]:
    share = fixed_costs(measured)
    if share is None or share < _FIXED or part.eager is None:
        return []
    what = (
        f"A call is too short: guards, the code around the graph and launches are {share:.0%} of a compiled call, "
        "whatever its sizes."
    )
    on_gpu = measured.setup is not None and measured.setup.device != "cpu"
    todo = "compile more work at once, or larger batches"
    return [(what, f"{todo}; --mode reduce-overhead replays all launches as one" if on_gpu else todo)]


def _of_model(measured: MeasuredConfiguration, part: TimedPart) -> list[tuple[str, str]]:
    found = []
    if part.drifts:
        what = "Eager calls get slower, or faster, from the first round to the last: calls change the model's state."
        found.append((what, "reset the state in inputs(), and use --fresh-inputs"))
    if part.unclean:
        counted = "does" if part.unclean == 1 else "do"
        what = f"{fmt.count(part.unclean, 'round')} compiled something, and {counted} not count."
        found.append((what, "see ctrace recompiles, then measure again"))
    # A note without a scenario is about the whole run.
    kinds = {each.kind: each for each in measured.notes if each.scenario in ("", part.scenario)}
    if "unused_gradients" in kinds:
        found.append(("Calls record gradients that nothing uses.",
                      "--train measures the backward, too; --vary grad=off calls under no_grad"))  # fmt: skip
    if "compiles_itself" in kinds:
        found.append(("Eager calls compile, too: the model calls torch.compile itself, or an operator that does, "
                      "as torch.cond.", "to compare with plain eager, remove the inner torch.compile"))  # fmt: skip
    if "mutates_inputs" in kinds:
        found.append(("Calls change their inputs, so each call got new ones, made between the timed blocks.", ""))
    if "damaged" in kinds:
        found.append((f"The record of the measurement has damaged lines: {kinds['damaged'].text}.", "measure again"))
    return found


def conditions(measured: MeasuredConfiguration) -> str:
    """Say how it was measured: device, threads, versions, warming up."""
    setup = measured.setup
    if setup is None:
        return ""
    where = f"{setup.device} · {fmt.count(setup.threads, 'thread')} of {fmt.count(setup.cores, 'core')}"
    return f"{where} · torch {setup.torch} · python {setup.python}"


def warming(part: TimedPart) -> str:
    """Say how many calls came before the first round."""
    shown = []
    for each in part.warm_ups:
        text = f"{each.side} {fmt.count(len(each.seconds), 'call')}"
        if each.side == "compiled":
            text += f", {len(each.compiled) or 'none'} of them compiling"
            text += fmt.framed(", ", fmt.some(each.recorded, "CUDA graph"), " recorded")
        if not each.settled:
            text += ", times not settled"
        shown.append(text)
    return "; ".join(shown)


def cuda_graphs(state: str) -> str:
    """Write the state of CUDA graphs for a table."""
    return {"not_on_cpu": "no GPU", "partly": "in part"}.get(state, state)
