"""Screen of `ctrace recompiles`: what changed in which call, whether recompilations will stop, their cost, the fix."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from ctrace.inspector.diagnosis.recompiles_document import AdvisedGroup, RecompilesDocument
from ctrace.inspector.facts.findings import Advice, Cause, Recompile
from ctrace.inspector.facts.session import Compilation
from ctrace.inspector.findings.recompiles.recompile_view import Cache, Outlook, RecompileGroup, other_reason
from ctrace.inspector.session.summary import is_whole, other_problems
from ctrace.reports import format as fmt
from ctrace.reports.terminal.findings_screen import source
from ctrace.reports.terminal.widgets import MOST, capped, example, fix, hanging, item, more, section, table
from ctrace.reports.wording.diagnosis_wording import is_of_kind

# As many entries as torch keeps for a function by default (2.13, _dynamo/config.py: recompile_limit).
_VALUES = 8
_WORDS = {
    Outlook.SETTLES: ("No more recompilations expected", "green"),
    Outlook.FINITE: ("A limited number of recompilations", "green"),
    Outlook.DIVERGES: ("Keeps recompiling", "bold red"),
    Outlook.UNKNOWN: ("Not known whether it keeps recompiling", "yellow"),
}
_TIMELINE = 50
"""The width of the timeline's columns except `differs in`."""
# Chosen: names of scenarios say what varies at their start.
_SCENARIO = 15
# Chosen: one line.
_OBJECTS = 6
_ID = 12
"""How many letters of a compilation's id to show; torch's ids are shorter."""


def recompiles_screen(document: RecompilesDocument, width: int, *, all_of_it: bool) -> Iterator[RenderableType]:
    """Show recompilations by cause, then each cache with its entries."""
    found = document.groups
    if not found:
        graphs = fmt.count(document.graphs, "graph")
        if is_whole(document.run):
            yield Text(f"\nNo recompilations: {graphs}, compiled once.")
        else:
            yield Text(f"\nNo recompilations recorded: {graphs} so far.")
    shown = capped(found, MOST, all_of_it=all_of_it)
    # Causes of one kind have the same example, which the first one shows.
    taught: set[Advice] = set()
    for number, group in enumerate(shown, 1):
        yield Text()
        yield item(Group(*_group(number, group, document, taught, all_of_it=all_of_it)))
    yield from more(len(found), "cause", "--all", most=len(shown))
    for cache in document.caches:
        yield from _cache(cache, document, width, all_of_it=all_of_it)
    for problem in other_problems(document.run):
        yield Text(f"\n! {fmt.one_line(problem.what, 400)}", style="yellow")


def _group(
    number: int, shown: AdvisedGroup, document: RecompilesDocument, taught: set[Advice], *, all_of_it: bool
) -> Iterator[RenderableType]:
    group, advice = shown.of, shown.advice
    yield Text.assemble(
        (f"{number}. {fmt.one_line(group.subject, 100)}", "bold"),
        f"  in {fmt.one_line(group.function, 60)} ({fmt.place(group.file, group.line, document.cwd)})  ",
        (" · ".join(_facts(group)), "dim"),
    )
    if shown.source is not None:
        yield source(shown.source)
    yield hanging(_took(group))
    if group.cause.others:
        yield hanging(f"{fmt.count(group.cause.others, 'more guard')} failed in the same way.")
    if (reported := _reported(group, document)) is not None:
        yield hanging(f"torch reports: {reported}")
    if group.also:
        yield hanging(f"Changed together with {fmt.listed(group.also, 4)}.")
    if group.cause.reason:
        yield hanging(group.cause.reason)
    word, style = _WORDS[group.prospect.outlook]
    yield hanging(f"{word}: {group.prospect.why}.", style)
    if group.expected:
        yield hanging(f"Expected. {group.cause.expected or group.why_expected}")
    if advice:
        yield fix(advice)
    if not group.expected and _fits_example(advice, group):
        yield from _example(group, taught, all_of_it=all_of_it)


def _example(group: RecompileGroup, taught: set[Advice], *, all_of_it: bool) -> Iterator[RenderableType]:
    """Show an example of the group's kind, once, and only where recompilations go on."""
    is_over = group.prospect.outlook in (Outlook.SETTLES, Outlook.FINITE)
    if group.cause.advice not in taught and (all_of_it or not is_over):
        taught.add(group.cause.advice)
        yield from example(group.cause.advice)


def _fits_example(advice: str, group: RecompileGroup) -> bool:
    """Whether the example of a group's kind says what its advice, if any, says; another example may contradict it."""
    switch = group.cause.advice.switch.partition(" = ")[0]
    return not advice or is_of_kind(advice, group.cause.fix) or bool(switch and switch in advice)


def _facts(group: RecompileGroup) -> Iterator[str]:
    yield group.kind
    yield fmt.count(len(group.compilations), "recompilation")
    if group.seconds is not None:
        yield f"{fmt.seconds(group.seconds)} in total" if group.also else fmt.seconds(group.seconds)
    if group.expected:
        yield "expected"


def _reported(group: RecompileGroup, document: RecompilesDocument) -> str | None:
    """Return torch's own reason, which is about the newest entry, if the screen does not show that guard."""
    by_id = {each.compilation: each for each in document.recompiles}
    found = (by_id[id_] for id_ in group.compilations if id_ in by_id)
    return next((reason for each in found if (reason := other_reason(each)) is not None), None)


def _took(group: RecompileGroup) -> str:
    if not group.values:
        return "Values not known."
    values = fmt.listed((fmt.one_line(value, 40) for value in group.values), _VALUES)
    # The first compilation is no recompilation, so there is one value more.
    one_each = len(group.values) == len(group.compilations) + 1 and not group.cause.is_open
    if one_each:
        return f"Compiled once for each value: {values}."
    if len(group.values) > 1:
        return f"Values seen: {values}."
    return f"Value seen: {values}."


def _cache(cache: Cache, document: RecompilesDocument, width: int, *, all_of_it: bool) -> Iterator[RenderableType]:
    count = fmt.count(len(cache.entries), "cache entry", "cache entries")
    used = f"{cache.use.used} of {cache.use.of} cache entries used" if cache.use else count
    yield section(f"{fmt.one_line(cache.function, 60)} ({fmt.place(cache.file, cache.line, document.cwd)}): {used}")
    if len(cache.objects) > 1:
        names = fmt.listed((fmt.one_line(name, 40) for name in cache.objects), _OBJECTS)
        yield Text(f"  {len(cache.objects)} modules share this cache: {names}", style="dim")
    if cache.refused:
        yield Text(f"  Recompile limit hit: calls that match no entry run eagerly{_left(cache)}.", style="red")
    rows = table("entry", "call", "nearest", "differs in", "time")
    shown = capped(cache.entries, _VALUES, all_of_it=all_of_it)
    for entry in shown:
        rows.add_row(*_row(entry.of, entry.recompile, width - _TIMELINE))
    yield item(rows)
    is_foreign = not document.run.environment.ctrace
    if is_foreign and any(each.recompile and _is_partly_logged(each.recompile) for each in shown):
        yield Text("  ? is not in this log. To record it, run the program with ctrace run.", style="dim")
    if len(shown) < len(cache.entries):
        yield Text(f"  and {fmt.count(len(cache.entries) - len(shown), 'more entry', 'more entries')}: see --all")


def _left(cache: Cache) -> str:
    return fmt.framed(", ", fmt.some(cache.left, "op"), " so far")


def _row(entry: Compilation, recompile: Recompile | None, width: int) -> tuple[str, str, str, str, str]:
    call = f"{fmt.one_line(entry.scenario, _SCENARIO)}, call {(entry.call or 0) + 1}" if entry.scenario else ""
    seconds = fmt.known(entry.seconds, fmt.seconds)
    id_ = fmt.one_line(entry.id, _ID)
    if recompile is None:
        return id_, call, "", "first call", seconds
    return id_, call, _nearest(recompile), fmt.one_line(_differs(recompile), max(width, 20)), seconds


def _nearest(recompile: Recompile) -> str:
    number = recompile.distances.get(recompile.nearest or "")
    return f"{fmt.one_line(recompile.nearest or '?', _ID)}{fmt.framed(' (', number or None, ')')}"


def _differs(recompile: Recompile) -> str:
    return "; ".join(map(_change, recompile.causes)) or recompile.reason


def _is_partly_logged(recompile: Recompile) -> bool:
    return any(cause.was is None or cause.now is None for cause in recompile.causes)


def _change(cause: Cause) -> str:
    more_of_it = fmt.framed(" and ", cause.others or None, " more")
    if cause.was is None and cause.now is None:
        return f"{cause.subject}{more_of_it}"
    return f"{cause.subject} {cause.was or '?'} → {cause.now or '?'}{more_of_it}"
