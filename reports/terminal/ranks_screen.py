"""Screen of `ctrace ranks`: whether the ranks agree, the first divergence, and what each group of ranks compiled."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.features.compare.ranks_of_job import COMPILATION, Divergence, Job
from ctrace.inspector.grouping import collected
from ctrace.reports import format as fmt
from ctrace.reports.terminal.widgets import capped, indented, item, more, section, table
from ctrace.reports.wording.ranks_wording import ADVICE, KINDS, MOST_GROUPS, answer, incomplete, letters, ranks_text

_PLAIN = ("node", "guard", "reason", COMPILATION)
"""Subjects that add nothing to the kind."""
_STYLES = {"AGREE": "green", "DIVERGE": "red", "INCOMPLETE": "yellow"}
# Chosen: one page; rows in which all ranks agree are left out first.
_MOST_ROWS = 20
# Chosen: each value is a group of ranks; more groups are not distinguished by reading.
_MOST_VALUES = 8
# Chosen: three lines of a terminal for a value.
_LONGEST = 300


def ranks_screen(job: Job, width: int, *, all_of_it: bool) -> Iterator[RenderableType]:
    """Show the answer first."""
    yield from _answer(job)
    for note in (*incomplete(job), *job.notes):
        yield Text(f"! {fmt.one_line(note, 400)}", style="yellow")
    if job.divergence is not None:
        yield from _divergence(job.divergence)
    for report in job.reports[:1]:
        yield section("Torch's own report of a mismatch")
        lines = fmt.plain(report).splitlines()
        yield item(Text("\n".join(fmt.cut(line, width - 2) for line in (capped(lines, 12, all_of_it=all_of_it)))))
    if job.compilations:
        yield from _matrix(job, width, all_of_it=all_of_it)
    yield from _times(job)


def _answer(job: Job) -> Iterator[RenderableType]:
    word, sentence = answer(job)
    yield Text.assemble((word, f"bold {_STYLES[word]}"), f"  {sentence}")


def _divergence(found: Divergence) -> Iterator[RenderableType]:
    yield section(f"First divergence: {KINDS[found.kind]}")
    where = f"{found.compilation}  {fmt.place(found.file, found.line, '')}  {fmt.one(found.function, 60)}"
    subject = "" if found.subject in _PLAIN else f"\n{fmt.one_line(found.subject, 120)}"
    yield item(Text.assemble((where, "bold"), subject))
    by_value = collected((value, rank) for rank, value in found.values.items())
    shown = list(by_value.items())[:_MOST_VALUES]
    for value, (_value, ranks) in zip(where_they_differ(list(by_value))[:_MOST_VALUES], shown, strict=True):
        line = Text.assemble((f"{ranks_text(ranks)}: ", "bold"), (fmt.one_line(value, _LONGEST), "cyan"))
        yield indented(line, 3)
    yield indented(Text(f"→ {ADVICE[found.kind]}", style="green"), 3)


def where_they_differ(values: list[str]) -> list[str]:
    """Cut what long values begin with alike, so that what differs stays on the screen."""
    # Not strict, since one value may be the beginning of another.
    columns = zip(*values, strict=False)
    alike = next((at for at, column in enumerate(columns) if len(set(column)) > 1), min(map(len, values), default=0))
    if len(values) < 2 or alike < _LONGEST // 2 or max(map(len, values)) <= _LONGEST:
        return values
    return [f"…{each[alike - _BEFORE :]}" for each in values]


_BEFORE = 60
"""How much of what is alike is shown before a difference."""


def _matrix(job: Job, width: int, *, all_of_it: bool) -> Iterator[RenderableType]:
    """Show what each group of ranks compiled; the same letter means the same content."""
    yield section("Compilations by rank")
    groups = capped(job.groups, MOST_GROUPS, all_of_it=all_of_it)
    rows = table("compilation", "function", *(fmt.cut(ranks_text(group), 16) for group in groups))
    odd = [each for each in job.compilations if len(set(letters(each.contents))) > 1]
    # Rows with one letter say nothing that the answer does not.
    chosen = list(job.compilations) if all_of_it or not odd else odd
    shown = capped(chosen, _MOST_ROWS, all_of_it=all_of_it)
    room = max(width - 16 - 18 * len(groups), 20)
    for each in shown:
        name = Text.assemble(fmt.one_line(each.function, 40), (f"  {fmt.file_name(each.file)}:{each.line}", "dim"))
        name.truncate(room, overflow="ellipsis")
        rows.add_row(each.id, name, *letters(each.contents[: len(groups)]))
    yield item(rows)
    yield from more(len(chosen), "compilation", "--all", most=len(shown))
    if alike := len(job.compilations) - len(chosen):
        yield Text(f"  and {fmt.count(alike, 'compilation')} with the same content on all ranks", style="dim")
    if len(groups) < len(job.groups):
        yield Text(f"  and {len(job.groups) - len(groups)} more groups of ranks: see --all")


def _times(job: Job) -> Iterator[RenderableType]:
    """Name the rank that compiled longest, if it took clearly longer than the others."""
    if len(job.seconds) < 2:
        return
    ordered = sorted(job.seconds.items(), key=lambda item: -item[1])
    (slowest, most), middle = ordered[0], ordered[len(ordered) // 2][1]
    line = f"Compile time: {fmt.seconds(ordered[-1][1])} to {fmt.seconds(most)}"
    # Chosen: ranks differ by some percent always, and a second is nothing to wait for.
    if most > 1.5 * middle and most - middle > 1:
        line += f"; rank {slowest} took longest, and the others may have waited for it"
    yield Text(f"\n{line}", style="dim")
