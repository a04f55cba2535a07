"""Screen of `ctrace breaks`: each graph break with its source, its cost and its fix."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ctrace.inspector.diagnosis.breaks_document import BreaksDocument
from ctrace.inspector.facts.findings import Advice, Frame
from ctrace.inspector.facts.session import Function
from ctrace.inspector.findings.breaks.break_view import (
    RankedBreak,
    by_ops_left,
    by_user_line,
    lonely_skips,
)
from ctrace.inspector.session.summary import other_problems
from ctrace.inspector.source.text import snippet
from ctrace.reports import format as fmt
from ctrace.reports.terminal.findings_screen import break_head, line_head, place_line, skip_line, source
from ctrace.reports.terminal.widgets import MOST, capped, example, fix, hanging, indented, item, more, section, table
from ctrace.reports.wording.diagnosis_wording import is_of_kind

_FUNCTION_NUMBERS = 31
"""The width of the columns in the table of functions except the function."""


def breaks_screen(document: BreaksDocument, width: int, *, all_paths: bool) -> Iterator[RenderableType]:
    """Show graph breaks and functions that run eagerly, the costliest first."""
    found = document.breaks
    lines = by_user_line(found)
    shown = capped(lines, MOST, all_of_it=all_paths)
    # Breaks of one kind have the same example, which the first one shows.
    taught: set[Advice] = set()
    for number, same in enumerate(shown, 1):
        yield Text()
        yield item(Group(*_line(number, same, document, all_paths=all_paths, taught=taught)))
    # Lines are listed and breaks are counted: a line may lead to several.
    yield from more(len(found), "break", "--all", most=sum(map(len, shown)))
    if document.others:
        yield Text(f"\n{fmt.count(document.others, 'break')} of other owners not shown", style="dim")
    yield from _left_alone(document)
    yield from _functions(document, width)
    for problem in other_problems(document.run):
        yield Text(f"\n! {fmt.one_line(problem.what, 400)}", style="yellow")


def _line(
    number: int,
    same: Sequence[RankedBreak],
    document: BreaksDocument,
    *,
    all_paths: bool,
    taught: set[Advice],
) -> Iterator[RenderableType]:
    """Show the breaks that one line of the user leads to."""
    first, cwd = same[0].at, document.cwd
    is_alone = len(same) == 1
    yield break_head(number, same[0], cwd) if is_alone else line_head(number, same, cwd)
    cut = snippet(document.listings, first.file, first.line, first.span)
    if cut is not None:
        yield source(cut)
    elif first.source:
        yield Text(f"   {fmt.one_line(first.source, 200)}", style="cyan")
    told: set[str] = set()
    shown = capped(same, MOST, all_of_it=all_paths)
    for each in shown:
        # The headline has the place of a break that is alone and in the line.
        if each.at.inside or not is_alone:
            yield indented(place_line(each, cwd, is_alone=is_alone), 3)
        yield from _break(each, document.fixes.get(each.number), told, taught)
        yield from _paths(each.at.paths, cwd, all_paths=all_paths)
    yield from more(len(same), "break", "--all", most=len(shown))


def _break(each: RankedBreak, advice: str | None, told: set[str], taught: set[Advice]) -> Iterator[RenderableType]:
    """Show why a break is there and what to do, as far as another break of the same line has not told it.

    `advice` is what `explain` says about it, if anything.
    """
    at = each.at
    reasons = [at.reason, *(f"{skip.function} {skip.outcome}. {skip.reason}" for skip in each.skips)]
    yield from (hanging(reason) for reason in reasons if reason not in told)
    if advice is not None:
        fixes = [advice]
    else:
        # A skip's advice begins with that of its break.
        fixes = [at.fix, *(skip.fix.removeprefix(at.fix).strip() for skip in each.skips)]
    yield from (fix(text) for text in fixes if text not in told)
    told.update(reasons, fixes)
    if (advice is None or is_of_kind(advice, at.fix)) and at.advice not in taught:
        taught.add(at.advice)
        yield from example(at.advice)


def _paths(paths: tuple[tuple[Frame, ...], ...], cwd: str, *, all_paths: bool) -> Iterator[RenderableType]:
    """Show the call paths to a break; skip a single path of one frame, which says nothing new."""
    if len(paths) == 1 and len(paths[0]) <= 1:
        return
    shown = capped(paths, 1, all_of_it=all_paths)
    for path in shown:
        steps = " → ".join(f"{fmt.place(frame.file, frame.line, cwd)} {fmt.plain(frame.function)}" for frame in path)
        yield indented(Text(f"reached by {steps}", style="dim"), 3)
    yield from more(len(paths), "path", "--all", most=len(shown), before="   ")


def _left_alone(document: BreaksDocument) -> Iterator[RenderableType]:
    cwd = document.cwd
    if alone := lonely_skips(document.skipped):
        yield section("Functions that run eagerly, without a graph break")
        for skip in alone:
            yield item(Group(skip_line(skip, cwd), hanging(skip.reason), fix(skip.fix)))
    if silent := document.never_compiled:
        names = fmt.listed((f"{each.name} ({fmt.place(each.file, each.line, cwd)})" for each in silent), 8)
        yield Text(fmt.plain(f"\nNot compiled, Dynamo captured no graph: {names}"), style="bold red")


def _functions(document: BreaksDocument, width: int) -> Iterator[RenderableType]:
    found = by_ops_left(document.functions)
    if not found:
        return
    yield section("Ops in eager, by function")
    rows = table("function", "ops", "in graphs", "eager")
    for each in found[:MOST]:
        rows.add_row(*_row(each, width - _FUNCTION_NUMBERS))
    yield item(rows)
    yield from more(len(found), "function")
    if unclaimed := document.unclaimed_ops:
        yield Text(f"  {fmt.count(unclaimed, 'op')} of these belong to no graph break or function above", style="dim")


def _row(function: Function, width: int) -> tuple[Text, str, str, str]:
    ops, compiled = function.coverage.ops or 0, function.coverage.compiled or 0
    name = Text.assemble(fmt.one_line(function.name, 40), (f"  {fmt.file_name(function.file)}:{function.line}", "dim"))
    name.truncate(width, overflow="ellipsis")
    return name, str(ops), str(compiled), str(ops - compiled)
