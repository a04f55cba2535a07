"""Screen of `ctrace ranks`: whether the ranks agree, the first divergence, and what each group of ranks compiled."""

from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from ctrace.inspector.ranks.job import COMPILATION, Divergence, Job
from ctrace.inspector.ranks.summary import Digest, Kind
from ctrace.reports import format as fmt
from ctrace.reports.terminal.widgets import item, more, section, table

_KINDS = {
    Kind.INPUT: "an input",
    Kind.COLLECTIVE: "a collective",
    Kind.GRAPH: "the graph",
    Kind.GUARD: "a guard",
    Kind.CACHE_KEY: "a part of the cache key",
    Kind.RECOMPILE: "a recompilation",
    Kind.MISSING: "a missing compilation",
}
_ADVICE = {
    Kind.INPUT: "Each rank compiles for its own sizes: pad the input to one size, or mark the dimension dynamic.",
    Kind.COLLECTIVE: (
        "Ranks that call different collectives, or in a different order, wait for each other: the job can hang."
    ),
    Kind.GRAPH: "A branch in the model depends on the rank, its data or its environment.",
    Kind.GUARD: "The graphs are equal; a later call can meet the guards of one rank and recompile on another.",
    Kind.CACHE_KEY: "The ranks cannot share compiled code: compare their environment variables and torch's settings.",
    Kind.RECOMPILE: "While one rank recompiles, the others can only wait in their next collective.",
    Kind.MISSING: "See the end of that rank's own output: a log does not show why a process ended.",
}
_PLAIN = ("node", "guard", "reason", COMPILATION)
"""Subjects that add nothing to the kind."""
_MOST_ROWS = 20
_MOST_GROUPS = 6
_MOST_VALUES = 8
_MOST_RANKS = 5
_LONGEST = 300


def ranks_screen(job: Job, width: int, *, all_of_it: bool) -> Iterator[RenderableType]:
    """Show the answer first."""
    yield from _answer(job)
    for note in (*_incomplete(job), *job.notes):
        yield Text(f"! {fmt.one_line(note, 400)}", style="yellow")
    if job.divergence is not None:
        yield from _divergence(job.divergence)
    for report in job.reports[:1]:
        yield section("Torch's own report of a mismatch")
        lines = fmt.plain(report).splitlines()
        yield item(Text("\n".join(fmt.cut(line, width - 2) for line in (lines if all_of_it else lines[:12]))))
    if job.compilations:
        yield from _matrix(job, width, all_of_it=all_of_it)
    yield from _times(job)


def _answer(job: Job) -> Iterator[RenderableType]:
    number = fmt.count(len(job.ranks), "rank")
    several = fmt.count(len(job.compilations), "compilation")
    match job.agree:
        case True:
            whole = "compiled the same" if len(job.ranks) > 1 else "nothing to compare it with"
            yield Text.assemble(("AGREE", "bold green"), f"  {number}: {whole}, {several}")
        case False:
            groups = f"{fmt.count(len(job.groups), 'group')}: {_groups(job)}"
            yield Text.assemble(("DIVERGE", "bold red"), f"  {number} in {groups}")
        case None:
            yield Text.assemble(("INCOMPLETE", "bold yellow"), f"  {number}: cannot tell whether all ranks agree")


def _groups(job: Job) -> str:
    return "; ".join(f"{ranks_text(group)}" for group in job.groups[:_MOST_GROUPS]) + (
        f"; and {len(job.groups) - _MOST_GROUPS} more" if len(job.groups) > _MOST_GROUPS else ""
    )


def _incomplete(job: Job) -> Iterator[str]:
    if job.missing:
        yield f"No log of {ranks_text(job.missing)}."
    for rank, why in list(job.cut.items())[:_MOST_VALUES]:
        yield f"The log of rank {rank} is incomplete: {why}."
    if (left := len(job.cut) - _MOST_VALUES) > 0:
        yield f"And {left} more incomplete logs: see --json."


def ranks_text(ranks: Iterable[int]) -> str:
    """Write `rank 3`, or `ranks 0-3, 5`."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    parts = [str(low) if low == high else f"{low}-{high}" for low, high in runs]
    is_one = len(runs) == 1 and runs[0][0] == runs[0][1]
    return f"{'rank' if is_one else 'ranks'} {fmt.listed(parts, _MOST_RANKS)}"


def _divergence(found: Divergence) -> Iterator[RenderableType]:
    yield section(f"First divergence: {_KINDS[found.kind]}")
    where = f"{found.compilation}  {fmt.place(found.file, found.line, '')}  {fmt.one(found.function, 60)}"
    subject = "" if found.subject in _PLAIN else f"\n{fmt.one_line(found.subject, 120)}"
    yield item(Text.assemble((where, "bold"), subject))
    by_value: dict[str, list[int]] = {}
    for rank, value in found.values.items():
        by_value.setdefault(value, []).append(rank)
    for value, ranks in list(by_value.items())[:_MOST_VALUES]:
        line = Text.assemble((f"{ranks_text(ranks)}: ", "bold"), (fmt.one_line(value, _LONGEST), "cyan"))
        yield Padding(line, (0, 0, 0, 3))
    yield Padding(Text(f"→ {_ADVICE[found.kind]}", style="green"), (0, 0, 0, 3))


def _matrix(job: Job, width: int, *, all_of_it: bool) -> Iterator[RenderableType]:
    """Show what each group of ranks compiled; the same letter means the same content."""
    yield section("Compilations by rank")
    groups = job.groups if all_of_it else job.groups[:_MOST_GROUPS]
    rows = table("compilation", "function", *(fmt.cut(ranks_text(group), 16) for group in groups))
    odd = [each for each in job.compilations if len(set(_letters(each.contents))) > 1]
    chosen = list(job.compilations) if all_of_it or not odd else odd
    shown = chosen if all_of_it else chosen[:_MOST_ROWS]
    room = max(width - 16 - 18 * len(groups), 20)
    for each in shown:
        name = Text.assemble(fmt.one_line(each.function, 40), (f"  {fmt.file_name(each.file)}:{each.line}", "dim"))
        name.truncate(room, overflow="ellipsis")
        rows.add_row(each.id, name, *_letters(each.contents[: len(groups)]))
    yield item(rows)
    yield from more(len(chosen), "compilation", "--all", most=len(shown))
    if alike := len(job.compilations) - len(chosen):
        yield Text(f"  and {fmt.count(alike, 'compilation')} with the same content on all ranks", style="dim")
    if len(groups) < len(job.groups):
        yield Text(f"  and {len(job.groups) - len(groups)} more groups of ranks: see --all")


def _letters(contents: Iterable[Digest | None]) -> Iterator[str]:
    known: dict[str, str] = {}
    for each in contents:
        if each is None:
            yield "-"
        else:
            key = repr(sorted(each.digests.items()))
            letter = known.setdefault(key, chr(ord("A") + min(len(known), 25)))
            yield letter


def _times(job: Job) -> Iterator[RenderableType]:
    """Name the rank that compiled longest, if it took clearly longer than the others."""
    if len(job.seconds) < 2:
        return
    ordered = sorted(job.seconds.items(), key=lambda item: -item[1])
    (slowest, most), middle = ordered[0], ordered[len(ordered) // 2][1]
    line = f"Compile time: {fmt.seconds(ordered[-1][1])} to {fmt.seconds(most)}"
    if most > 1.5 * middle and most - middle > 1:
        line += f"; rank {slowest} took longest, and the others may have waited for it"
    yield Text(f"\n{line}", style="dim")
