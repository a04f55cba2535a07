"""Screen of `ctrace autotune`: each operation's choices with their times, the winner, and what was not tried."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from ctrace.inspector.facts.autotuning import Choice, TunedOperation
from ctrace.inspector.findings.autotuning.autotuning_view import FAILED, AutotuningDocument, KernelRow, winner
from ctrace.reports import format as fmt
from ctrace.reports.terminal.widgets import fix, hanging, item, section, table
from ctrace.reports.wording import autotuning_wording as words
from ctrace.reports.wording.durations import duration
from ctrace.reports.wording.kernels_wording import lines_text

_MOST = 5
_MOST_KERNELS = 8
_SETTINGS = 80


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
        for row in rows if all_of_it else rows[:_MOST_KERNELS]:
            yield from _kernel(row, all_of_it=all_of_it)
        yield from _more(len(rows), _MOST_KERNELS, "kernel", all_of_it=all_of_it)
    if any(each.is_swept for each in operations) or any(row.taken for row in rows):
        yield from _notes(operations, rows)


def _operations(operations: Sequence[TunedOperation], *, all_of_it: bool) -> Iterator[RenderableType]:
    for each in operations:
        part = f"graph {fmt.one_line(each.graph)}" + ("" if each.stage is None else f" {each.stage}")
        place = f", {lines_text(each.lines)}" if each.lines else ""
        yield item(Text.assemble("\n", (words.title(each), "bold"), (f"  {part}{place}", "dim")))
        yield hanging(words.answer(each))
        if used := words.taken(each):
            yield hanging(used)
        if len(each.choices) > 1:
            yield from _choices(each.choices, all_of_it=all_of_it)
        for untried in words.untried(each):
            yield hanging(f"Not tried: {untried}", "dim")
        if cost := words.costs(each):
            yield hanging(cost, "dim")


def _choices(choices: Sequence[Choice], *, all_of_it: bool, first: str = "choice") -> Iterator[RenderableType]:
    """Show the fastest choices, then those that failed, with the compiler's words."""
    sound = [each for each in choices if each.status not in FAILED]
    failed = [each for each in choices if each.status in FAILED]
    best = winner(choices)
    settings = words.configurations(sound)
    columns = ["time"] if best is not None else []
    columns += ["middle half", "runs"] if any(each.spread for each in sound) else []
    shown = table(first, *columns, *(["differs in"] if settings else []))
    for column in shown.columns[1 : 1 + len(columns)]:
        column.justify = "right"
    for each in sound if all_of_it else sound[:_MOST]:
        time = words.status(each) if each.seconds is None else duration(each.seconds)
        runs = "" if each.spread is None else str(each.spread.runs)
        cells = {"time": time, "middle half": words.spread(each.spread), "runs": runs}
        row = [words.name(each), *(cells[column] for column in columns)]
        row += [fmt.cut(settings.get(each.name, ""), _SETTINGS)] if settings else []
        shown.add_row(*map(Text, row), style="green" if each is best else "")
    yield Padding(shown, (0, 0, 0, 3))
    yield from _more(len(sound), _MOST, "choice", all_of_it=all_of_it)
    for each in failed if all_of_it else failed[:_MOST]:
        words_of_it = fmt.one_line(each.error, 300) or "torch does not say why"
        yield hanging(f"{words.name(each)} {words.status(each)}: {words_of_it}", "red")
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
    cost = f"; {duration(row.seconds)} to compile and time" if row.seconds is not None else ""
    if by is None:
        return f"{fmt.one_line(row.taken, 200)}{cost}"
    return f"{fmt.one_line(row.taken, 200)} is used; {words.margin_text(by)}{cost}"


def _more(number: int, most: int, noun: str, *, all_of_it: bool) -> Iterator[RenderableType]:
    if number > most and not all_of_it:
        yield Text(f"     and {fmt.count(number - most, f'more {noun}')}: see --all", style="dim")


def _notes(operations: Iterable[TunedOperation], rows: Iterable[KernelRow]) -> Iterator[RenderableType]:
    choices = [each for one in operations for each in one.choices]
    choices += [each for row in rows for each in row.configurations]
    if any(each.spread for each in choices):
        text = (
            "A margin is beyond the spread if the middle halves of the runs of both choices do not overlap. Torch times"
        )
        yield Text(f"\n{text} one choice after the other: a busy machine can skew the comparison.", style="dim")
