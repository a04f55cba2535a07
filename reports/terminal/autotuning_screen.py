"""Screen of `ctrace autotune`: each operation's choices with their times, the winner, and what was not tried."""

import re
from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from ctrace.inspector.facts.autotuning import Choice, ChoiceStatus, TimeSpread, TunedOperation
from ctrace.inspector.findings.autotuning_view import (
    FAILED,
    AutotuningDocument,
    KernelRow,
    Margin,
    Noise,
    margin,
    timed,
    winner,
)
from ctrace.inspector.grouping import collected
from ctrace.reports import format as fmt
from ctrace.reports.format import duration
from ctrace.reports.terminal.widgets import capped, fix, hanging, item, more, section, table
from ctrace.reports.wording.kernels_wording import lines_text

# Chosen: the winner and what came close; the next ones are for kernels, and for the settings beside a name.
_MOST = 5
_MOST_KERNELS = 8
_SETTINGS = 80
_NOISE = {
    Noise.BEYOND: "beyond the spread of their runs",
    Noise.WITHIN: "within the spread of their runs: either may be faster",
    Noise.NOT_KNOWN: "noise not known: torch kept one time for each",
}
_STATUS = {
    ChoiceStatus.TIMED: "",
    ChoiceStatus.NOT_TIMED: "not timed",
    ChoiceStatus.FAILED_TO_COMPILE: "does not compile",
    ChoiceStatus.FAILED_TO_RUN: "failed to run",
    ChoiceStatus.DOES_NOT_FIT: "does not fit",
}
# Chosen: a name beside columns of numbers.
_NAME = 40
# Not at each comma: a value may have some, as in `BLOCK=(64, 64), num_warps=4`.
_SETTING = re.compile(r", (?=\w+=)")


def autotuning_screen(document: AutotuningDocument, *, all_of_it: bool = False) -> Iterator[RenderableType]:
    """Show each operation with its choices, then Triton kernels with their configurations."""
    operations, rows = [each.of for each in document.operations], document.kernels
    if document.summary:
        yield section(f"Autotuning: {document.summary}")
    elif document.not_timed_because is not None:
        yield Text(f"\n{document.not_timed_because}")
        yield fix(document.todo)
    yield from _operations(operations, all_of_it=all_of_it)
    if rows:
        yield section(f"Configurations of Triton kernels: {fmt.count(len(rows), 'kernel')}")
        for row in capped(rows, _MOST_KERNELS, all_of_it=all_of_it):
            yield from _kernel(row, all_of_it=all_of_it)
        yield from _more(len(rows), _MOST_KERNELS, "kernel", all_of_it=all_of_it)
    if any(each.is_swept for each in operations) or any(row.taken for row in rows):
        yield from _notes(operations, rows)


def _operations(operations: Sequence[TunedOperation], *, all_of_it: bool) -> Iterator[RenderableType]:
    for each in operations:
        part = f"graph {fmt.one_line(each.graph)}{fmt.framed(' ', each.stage)}"
        place = fmt.when(each.lines, f", {lines_text(each.lines)}")
        yield item(Text.assemble("\n", (title(each), "bold"), (f"  {part}{place}", "dim")))
        yield hanging(answer(each))
        if used := taken(each):
            yield hanging(used)
        if len(each.choices) > 1:
            yield from _choices(each.choices, all_of_it=all_of_it)
        for why in untried(each):
            yield hanging(f"Not tried: {why}", "dim")
        if cost := costs(each):
            yield hanging(cost, "dim")


def _choices(choices: Sequence[Choice], *, all_of_it: bool, first: str = "choice") -> Iterator[RenderableType]:
    """Show the fastest choices, then those that failed, with the compiler's words."""
    sound = [each for each in choices if each.status not in FAILED]
    failed = [each for each in choices if each.status in FAILED]
    best = winner(choices)
    settings = configurations(sound)
    columns = []
    if best is not None:
        columns.append("time")
    if any(each.spread for each in sound):
        columns += ["middle half", "runs"]
    titles = [first, *columns]
    if settings:
        titles.append("differs in")
    shown = table(*titles)
    for column in shown.columns[1 : 1 + len(columns)]:
        column.justify = "right"
    for each in capped(sound, _MOST, all_of_it=all_of_it):
        time = fmt.known(each.seconds, duration, status(each))
        runs = fmt.known(each.spread, lambda found: str(found.runs), "")
        cells = {"time": time, "middle half": fmt.known(each.spread, spread, ""), "runs": runs}
        row = [name(each), *(cells[column] for column in columns)]
        if settings:
            row.append(fmt.cut(settings.get(each.name, ""), _SETTINGS))
        shown.add_row(*map(Text, row), style=fmt.when(each is best, "green"))
    yield Padding(shown, (0, 0, 0, 3))
    yield from _more(len(sound), _MOST, "choice", all_of_it=all_of_it)
    for each in capped(failed, _MOST, all_of_it=all_of_it):
        words_of_it = fmt.one_line(each.error, 300) or "torch does not say why"
        yield hanging(f"{name(each)} {status(each)}: {words_of_it}", "red")
    yield from _more(len(failed), _MOST, "failed choice", all_of_it=all_of_it)


def _kernel(row: KernelRow, *, all_of_it: bool) -> Iterator[RenderableType]:
    of_user = f" ({fmt.one(row.user.kernel)}, user-written)" if row.user is not None else ""
    part = f"graph {fmt.one_line(row.graph)} {row.stage}"
    yield item(Text.assemble("\n", (fmt.one(row.kernel, 60), "bold"), of_user, (f"  {part}", "dim")))
    yield hanging(_kernel_answer(row))
    if row.user is not None and row.user.key:
        key = ", ".join(map(fmt.one, row.user.key))
        yield hanging(f"key={key} in triton.autotune: Inductor tunes each kernel once and ignores the key", "dim")
    if len(row.configurations) > 1:
        yield from _choices(row.configurations, all_of_it=all_of_it, first="configuration")


def _kernel_answer(row: KernelRow) -> str:
    if row.taken is None:
        number = fmt.count(len(row.configurations), "configuration")
        return f"{number}, not timed: torch times them when the kernel is first launched"
    if not row.configurations:
        return f"{fmt.one_line(row.taken, 200)}: known from torch's cache, so nothing was timed"
    by = row.margin
    cost = fmt.framed("; ", fmt.known(row.seconds, duration, ""), " to compile and time")
    if by is None:
        return f"{fmt.one_line(row.taken, 200)}{cost}"
    return f"{fmt.one_line(row.taken, 200)} is used; {margin_text(by)}{cost}"


def _more(number: int, most: int, noun: str, *, all_of_it: bool) -> Iterator[RenderableType]:
    if not all_of_it:
        yield from more(number, noun, "--all", most=most, before="     ")


def _notes(operations: Iterable[TunedOperation], rows: Iterable[KernelRow]) -> Iterator[RenderableType]:
    choices = [each for one in operations for each in one.choices]
    choices += [each for row in rows for each in row.configurations]
    if any(each.spread for each in choices):
        text = (
            "A margin is beyond the spread if the middle halves of the runs of both choices do not overlap. Torch times"
        )
        yield Text(f"\n{text} one choice after the other: a busy machine can skew the comparison.", style="dim")


def title(each: TunedOperation) -> str:
    """Write an operation as torch's log does: `mm(64x256, 256x512) float32`."""
    shapes = ", ".join("x".join(one.shape) for one in each.inputs)
    dtypes = dict.fromkeys(one.dtype for one in each.inputs if one.dtype)
    return fmt.one_line(f"{each.op}({shapes}) {', '.join(dtypes)}", 300)


def answer(each: TunedOperation) -> str:
    """Say which choice won, and by how much."""
    # Unnamed choices count: the next best may be one of them.
    first, by = winner(each.choices), margin(each.choices, each.unnamed)
    if first is None:
        if each.is_on is None and each.choices:
            return f"the generated code uses {name(each.choices[0])}; other choices are not known"
        if len(each.choices) == 1:
            return f"1 choice, {name(each.choices[0])}: nothing to time"
        used = fmt.framed("; the generated code uses ", fmt.cut(fmt.one(each.taken or ""), _NAME))
        return f"{fmt.count(len(each.choices), 'choice')}, not timed{used}"
    if by is None:
        named = len(timed(each.choices))
        others = fmt.when(each.unnamed, f"; torch's log names only {named} of {each.unnamed + named} choices")
        return f"{name(first)} takes {duration(first.seconds)}{others}"
    return f"{name(first)} wins: {margin_text(by)}"


def margin_text(by: Margin) -> str:
    """Write `cpp_1 takes 72% longer (beyond the spread of their runs)`."""
    return f"{fmt.cut(fmt.one(by.of_next), _NAME)} takes {_longer(by.part)} ({_NOISE[by.noise]})"


def _longer(part: float) -> str:
    # Smaller parts would be written as `0.0% longer`.
    if part < 0.0005:
        return "as long"
    if part >= 1:
        if part >= 9:
            return f"{part + 1:.0f} times as long"
        return f"{part + 1:.1f} times as long"
    if part < 0.095:
        return f"{part:.1%} longer"
    return f"{part:.0%} longer"


def taken(each: TunedOperation) -> str:
    """Say which choice the code uses, where that is not the fastest one; empty otherwise."""
    first = winner(each.choices)
    if each.taken is None or first is None or each.taken == first.name:
        return ""
    why = "it was faster together with the ops fused into it" if each.is_fused else "torch gives no reason"
    return f"The code uses {fmt.one(each.taken)}: {why}"


def costs(each: TunedOperation) -> str:
    """Say what the sweep cost."""
    if each.is_cached:
        return "Times from torch's cache: an earlier sweep of the same operation"
    if each.seconds is None or not each.is_swept:
        return ""
    parts = [
        f"{duration(seconds)} {what}"
        for seconds, what in ((each.compile_seconds, "compiling"), (each.timing_seconds, "timing"))
        if seconds is not None and seconds >= 0.0005
    ]
    inside = fmt.when(len(parts) > 1, f": {' and '.join(parts)}")
    return f"The sweep of {fmt.count(len(timed(each.choices)), 'choice')} took {duration(each.seconds)}{inside}"


def name(choice: Choice) -> str:
    """Write a choice's name; torch's log has none for those that failed to compile."""
    return fmt.cut(fmt.one(choice.name or choice.configuration or "unnamed"), _NAME)


def configurations(choices: Sequence[Choice]) -> dict[str, str]:
    """Return what distinguishes each configuration, by name: the settings that not all of them share."""
    settings = {each.name: _SETTING.split(each.configuration) for each in choices if each.configuration}
    shared = set.intersection(*map(set, settings.values())) if len(settings) > 1 else set()
    return {name: fmt.one(", ".join(each for each in found if each not in shared)) for name, found in settings.items()}


def untried(each: TunedOperation) -> list[str]:
    """Say which templates torch did not try and why; those with the same reasons together."""
    by_reason = collected((one.reasons, one.what) for one in each.untried)
    return [f"{', '.join(what)}: {'; '.join(reasons)}" for reasons, what in by_reason.items()]


def status(choice: Choice) -> str:
    """Say what became of a choice that has no time."""
    return _STATUS[choice.status]


def spread(found: TimeSpread) -> str:
    """Write the middle half of the runs: `112 to 117 µs`."""
    low, high = duration(found.low), duration(found.high)
    number, _, unit = low.rpartition(" ")
    return f"{number if high.endswith(f' {unit}') else low} to {high}"
