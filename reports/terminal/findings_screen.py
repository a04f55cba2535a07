"""Pieces of a finding that several screens show: its headline and its source.

Screens of `--explain`: a kind of graph break or recompilation cause, without a run.
"""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.facts.findings import Break, BreakKind, Owner, Skip
from ctrace.inspector.findings.breaks.advice_lookup import CauseLesson, Lesson, Registered
from ctrace.inspector.findings.breaks.break_view import RankedBreak, together
from ctrace.inspector.knowledge.advice import AdviceEntry
from ctrace.inspector.source.text import Snippet
from ctrace.reports import format as fmt
from ctrace.reports.terminal.widgets import example, fix, hanging, section


def break_head(number: int, each: RankedBreak, cwd: str) -> Text:
    """Write the headline of a graph break: number, place, gb id, cost and owner."""
    return _head(number, each.at, cwd, _facts(each, with_owner=True))


def _facts(each: RankedBreak, *, with_owner: bool) -> str:
    """Write a break's ids, how often it occurs, its cost, and who wrote or disabled the code."""
    at = each.at
    facts = [", ".join(at.gb) or "no gb id", fmt.count(at.times, "time"), fmt.cost(each.cost)]
    if with_owner and at.owner is not Owner.USER:
        facts.append(f"in {at.owner} code")
    if at.kind is BreakKind.DISABLED:
        facts.append("disabled by its author")
    return fmt.joined(" · ", *facts)


def _head(number: int, at: Break, cwd: str, facts: str) -> Text:
    place = (f"{number}. {fmt.place(at.file, at.line, cwd)}", "bold")
    return Text.assemble(place, f" in {fmt.plain(at.function)}  ", (facts, "dim"))


def line_head(number: int, same: Sequence[RankedBreak], cwd: str) -> Text:
    """Write the headline of a user's line that leads to several breaks: number, line and cost."""
    counts = fmt.count(len(same), "graph break"), fmt.count(sum(each.at.times for each in same), "time")
    cost = fmt.cost(together(each.cost for each in same))
    return _head(number, same[0].at, cwd, fmt.joined(" · ", *counts, cost))


def place_line(each: RankedBreak, cwd: str, *, is_alone: bool) -> Text:
    """Write where a break is: with its facts, unless its headline has them."""
    place = each.at.place
    line = Text(f"at {fmt.place(place.file, place.line, cwd)} in {fmt.plain(place.function)}")
    if not is_alone:
        line.append(f"  {_facts(each, with_owner=False)}", "dim")
    if place.source:
        line.append(f"\n  {fmt.one_line(place.source, 200)}", "cyan")
    return line


def skip_line(skip: Skip, cwd: str) -> Text:
    """Write the headline of a function that runs eagerly: name, place and cost."""
    facts = fmt.framed("  ", fmt.cost(skip.cost))
    return Text.assemble(
        (fmt.plain(skip.function), "bold"), f"  {fmt.place(skip.file, skip.line, cwd)}", (facts, "dim")
    )


def source(cut: Snippet) -> RenderableType:
    """Number the lines, mark the one that breaks, and underline the expression that breaks."""
    wide = len(str(cut.lines[-1][0]))
    indent = min((len(text) - len(text.lstrip()) for _, text in cut.lines if text.strip()), default=0)
    text = Text()
    for number, code in cut.lines:
        here = number == cut.line
        # A tab is one column of a span, and several of the screen.
        line = fmt.plain(code[indent:].replace("\t", " "))
        text.append(f"   {'>' if here else ' '} {number:>{wide}} │ ", style="dim")
        text.append(f"{line}\n", style="cyan" if here else "dim")
        if here and cut.columns is not None:
            # The end may lie in a later line, where an expression goes on.
            begin, end = (column - indent for column in cut.columns)
            text.append(f"     {'':>{wide}} │ ", style="dim")
            text.append(f"{' ' * begin}{'^' * max(min(end, len(line)) - begin, 1)}\n", style="bold cyan")
    text.rstrip()
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def lesson_screen(lesson: Lesson) -> Iterator[RenderableType]:
    """Explain a kind of graph break or skip."""
    entry, registered = lesson.entry, lesson.torch
    titled = entry or registered
    title = fmt.plain(titled.title) if titled else ""
    yield Text.assemble((fmt.plain(lesson.name), "bold"), fmt.framed("  ", title))
    if lesson.absence:
        yield hanging(f"Not in torch {lesson.version}: {lesson.absence}.")
    if entry is not None:
        yield from _entry(entry)
        yield from _example_versions(entry)
        if lesson.lifetime is not None and lesson.lifetime.raised_until:
            yield hanging(lesson.lifetime.retirement())
    else:
        yield hanging(no_advice(lesson))
    for case, special in lesson.cases.items():
        yield section(f"If it is {_CASES.get(case, fmt.plain(special.title))}")
        yield from _entry(special)
    if registered is not None:
        yield from _in_torch_words(registered)


def no_advice(lesson: Lesson) -> str:
    """Say that ctrace has no advice for a gb id, and why."""
    if lesson.unadvised is None:
        return "ctrace has no advice for this one: it is newer than ctrace's list, which ends with torch 2.15."
    return f"ctrace has no advice for this one: {_decapitalized(lesson.unadvised.line)}"


def _decapitalized(line: str) -> str:
    """Make the first letter lower case, for use after a colon; keep names such as NumPy and __init__."""
    first = line.partition(" ")[0]
    if first == "A" or first[1:].islower():
        return line[0].lower() + line[1:]
    return line


def _example_versions(entry: AdviceEntry) -> Iterator[RenderableType]:
    if entry.breaks_on:
        yield hanging(f"The example breaks with this id on torch {entry.breaks_on} (tried on 2.13 and 2.15).")


_CASES = {
    "assert": "an assert",
    "check": "a check that only raises",
    "while": "a while loop",
    "ternary": "a conditional expression",
    "cast": "int(), float() or bool() of a tensor",
    "if": "an if",
}


def cause_lesson_screen(lesson: CauseLesson) -> Iterator[RenderableType]:
    """Explain a kind of cause and its special cases."""
    yield Text.assemble((fmt.plain(lesson.name), "bold"), f"  {fmt.plain(lesson.entry.title)}")
    yield from _entry(lesson.entry)
    for name, special in lesson.cases.items():
        yield section(f"{fmt.plain(name)}: {fmt.plain(special.entry.title)}")
        yield from _entry(special.entry)


def _entry(entry: AdviceEntry) -> Iterator[RenderableType]:
    yield hanging(entry.why)
    if entry.expected:
        yield hanging(f"Expected: {entry.expected}")
    yield fix(entry.fix)
    yield from example(entry.advice)


def _in_torch_words(registered: Registered) -> Iterator[RenderableType]:
    yield section("In torch's own words")
    yield hanging(registered.title)
    if registered.explanation:
        yield hanging(registered.explanation)
    for hint in registered.hints:
        yield hanging(f"Hint: {hint}")
