"""Screen of `ctrace diff`: a summary, then the differences by kind."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from ctrace.inspector.features.compare.changes import Change, ChangeKind, DiffDocument, What
from ctrace.reports import format as fmt
from ctrace.reports.terminal.widgets import MOST, capped, diff_style, more, section
from ctrace.reports.wording.diff_wording import (
    answer,
    folded,
    headword,
    judged,
    name_of,
    next_command,
    not_compared,
    places,
    short_name,
)

_SIGNS = {ChangeKind.ADDED: ("+", "green"), ChangeKind.REMOVED: ("-", "red"), ChangeKind.CHANGED: ("~", "yellow")}
# Chosen: three lines of a terminal for one side of a change.
_LONGEST = 240
_GUARD = 72
"""Width of a guard's text: a run has hundreds of guards."""


_HEADWORDS = {"equal": "bold green", "better": "bold green", "worse": "bold red", "different": "bold yellow"}


def diff_screen(document: DiffDocument, *, all_of_it: bool, after_run: str | None = None) -> Iterator[RenderableType]:
    """Show the answer first, then each kind of change and the next command; `after_run` names the later run for it."""
    before, after, found = document.before, document.after, document.found
    names = f"{fmt.one(before, 200)} → {fmt.one(after, 200)}"
    word = headword(found)
    head = Text.assemble((word.upper(), _HEADWORDS[word]), "  ", (names, "bold"))
    if found.equal:
        yield head.append(f"  {answer(found)}")
    else:
        yield head
        if which := judged(found.judgement, fmt.one(short_name(before, after), 200)):
            yield Text(which)
        yield Text(answer(found))
    for note in found.notes:
        yield Text(f"! {fmt.one_line(note, 400)}", style="yellow")
    hidden = () if all_of_it else found.consequences
    if hidden:
        yield Text(f"  {folded(found, '--all')}", style="dim")
    for what in What:
        changes = [each for each in found.changes if each.what is what and each not in hidden]
        if changes:
            title = name_of(what)
            yield section(f"{title[:1].upper()}{title[1:]}")
            yield from _changes(changes, all_of_it=all_of_it)
    if not found.equal or all_of_it:
        lines = not_compared(found)
        yield Text("".join(f"\n{fmt.one_line(line, 400)}" for line in lines), style="dim")
    if command := next_command(found, after_run):
        yield section("Next")
        yield Text(f"  {fmt.one_line(command, 400)}")


def _changes(changes: list[Change], *, all_of_it: bool) -> Iterator[RenderableType]:
    shown = capped(changes, MOST, all_of_it=all_of_it)
    for where, several in places(shown).items():
        yield Text(f"  {fmt.one_line(where, 120)}", style="bold")
        for change in several:
            sign, style = _SIGNS[change.how]
            for number, text in enumerate(_sides(change, cut=not all_of_it)):
                yield Padding(Text.assemble((f"{' ' if number else sign} ", style), text), (0, 0, 0, 4))
            yield from _detail(change, all_of_it=all_of_it)
            yield from _follows(change, all_of_it=all_of_it)
    if len(shown) < len(changes):
        yield from more(len(changes), "change", "--all or --json")


def _sides(change: Change, *, cut: bool) -> Iterator[Text]:
    most = 0  # all of it
    if cut:
        most = _GUARD if change.what is What.GUARD else _LONGEST
    if change.was is not None:
        word = fmt.when(change.now is not None, "was ")
        yield Text(f"{word}{fmt.one_line(change.was, most)}")
    if change.now is not None:
        word = fmt.when(change.was is not None, "now ")
        yield Text(f"{word}{fmt.one_line(change.now, most)}")


def _detail(change: Change, *, all_of_it: bool) -> Iterator[RenderableType]:
    lines = change.detail[2:]  # the first two lines name the kernels, as the lines above do already
    if not lines or not all_of_it:
        if lines:
            yield Padding(Text(f"source differs: {fmt.count(_edits(lines), 'line')}", style="dim"), (0, 0, 0, 6))
        return
    text = Text(no_wrap=True, overflow="ellipsis")
    for line in lines:
        text.append(f"{fmt.plain(line)}\n", style=diff_style(line))
    text.rstrip()
    yield Padding(text, (0, 0, 0, 6))


def _follows(change: Change, *, all_of_it: bool) -> Iterator[RenderableType]:
    """Show what follows from a change: in short, if the change does not say it, or each line."""
    summary, each = change.follows[:1], change.follows[1:]
    # A change of a kernel names what follows in its own text.
    short = () if change.what is What.KERNEL else summary
    for line in each if all_of_it else short:
        yield Padding(
            Text(f"so {fmt.one_line(line)}" if line in summary else fmt.one_line(line), style="dim"), (0, 0, 0, 6)
        )


def _edits(lines: tuple[str, ...]) -> int:
    """Count the lines that only one side has."""
    return max(sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines))
