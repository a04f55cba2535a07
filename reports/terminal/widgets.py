"""Building blocks of the screens.

Tables fit the screen: numbers are never cut, names are cut in the middle.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeVar

from msgspec import Struct
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ctrace.inspector.facts.compile_time import TorchCachesUsed
from ctrace.inspector.facts.findings import Advice
from ctrace.inspector.facts.session import Verdict
from ctrace.inspector.session.summary import RunAnswer
from ctrace.reports import format as fmt
from ctrace.reports.escape import SafeText, plain, screen_text

MOST = 6
"""How many graphs, kernels or findings a screen lists before it counts the rest."""
# Two columns between cells: with one, numbers of neighboring columns run together.
GAP = 2
_SENTENCE = 1000
"""The most letters of one sentence on a screen; a message of the user's program may have millions."""
_VERDICT_STYLES = {
    Verdict.COMPILED: "bold green",
    Verdict.PARTIAL: "bold yellow",
    Verdict.NOT_COMPILED: "bold red",
    Verdict.FAILED: "bold red",
    Verdict.INCOMPLETE: "bold yellow",
}
_NUMBERS = ("ops", "guards", "graphs", "eager", "in graphs")
"""How headings of columns that hold numbers begin."""
# Of the terminal's own colors: code stays readable on a light background, too.
_THEME = "ansi_dark"
WIDE = 100
"""The screen width from which words are not abbreviated."""
_SHORTEST = 14
"""The least width of the first column."""
_FIRST, _SECOND = 18, 15
"""Least widths of the first two columns; the second gets more only after the first has its width."""

_Row = TypeVar("_Row")


class Verbatim(Struct, frozen=True):
    """Text whose lines are never cut or folded, such as code to copy."""

    text: Text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the text; `render` keeps the console from cutting it."""
        yield self.text


class _Safe(Struct, frozen=True):
    """Part of a screen with all text escaped, so that no letter can control the terminal."""

    part: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the part; only rich's own output, such as styles, may control the terminal."""
        for segment in console.render(Group(self.part), options):
            yield segment if segment.control else Segment(plain(segment.text), segment.style)


def render(screen: Iterable[RenderableType], console: Console) -> None:
    """Print a screen."""
    console.file.write(drawn(screen, console))


def drawn(screen: Iterable[RenderableType], console: Console) -> SafeText:
    """Draw a screen for a console; the only way to turn one into text."""
    with console.capture() as captured:
        for part in screen:
            is_whole = isinstance(part, Verbatim)
            console.print(_Safe(part), highlight=False, markup=False, emoji=False, soft_wrap=is_whole)
    # Rich pads lines to the full width, which gets in the way of copying and diffing.
    lines = captured.get().split("\n")
    return screen_text("\n".join(line.rstrip() for line in lines))


def headline(found: RunAnswer) -> Text:
    """Write the verdict, the target, the answer in one sentence, and the target GPU."""
    verdict = f"{str(found.verdict).replace('_', ' ').upper()}{fmt.when(found.is_at_first, ' AT FIRST')}"
    answer = fmt.plain(fmt.shortened(found.sentence, _SENTENCE))
    if found.failure is not None and found.failure.file is not None:
        answer += f"\nat {fmt.place(found.failure.file, found.failure.line, found.cwd)}"
    beside = [(f"\n{fmt.one_line(each, 600)}", "yellow") for each in (found.rank, found.gpu) if each]
    unknown = [(f"\n! {fmt.shortened(fmt.one_line(each), _SENTENCE)}", "yellow") for each in found.unknown]
    name = (fmt.one(found.target), "bold")
    return Text.assemble((verdict, _VERDICT_STYLES[found.verdict]), "  ", name, "\n", answer, *unknown, *beside)


def led(answer: RunAnswer, screen: Iterable[RenderableType]) -> Iterator[RenderableType]:
    """Put the verdict above a screen."""
    yield headline(answer)
    yield from screen


def led_by_verdict(answer: RunAnswer, screen: Iterable[RenderableType]) -> Iterator[RenderableType]:
    """Put the verdict above a screen if the run is incomplete."""
    if answer.is_cut:
        yield headline(answer)
        yield Text()
    yield from screen


def compile_only_note(caches: TorchCachesUsed) -> Iterator[RenderableType]:
    """Say that a run of `ctrace time --compile` has little for other views."""
    if caches.kind in ("private", "user"):
        what = "ctrace time --compile recorded compile time and caches in this run, not passes, fusion or kernels."
        # Such a run is made without the hooks that slow compiling down, and those record the rest.
        yield Text(f"{what} To record them: ctrace explain model.py", style="yellow")


def of_other_run(run: str, screen: Iterable[RenderableType]) -> Iterator[RenderableType]:
    """End a screen of a run that is not the last one with the name that the commands on it need, if it has any."""
    names_commands = False
    for part in screen:
        names_commands |= isinstance(part, Text) and "ctrace " in part.plain
        yield part
    if names_commands:
        yield Text(f"This is not the last run: add its name, {fmt.one_line(run, 200)}, to the command.", style="dim")


def table(*columns: str) -> Table:
    """Return a table without lines."""
    made = Table(box=None, padding=(0, GAP, 0, 0), header_style="dim", show_edge=False)
    for column in columns:
        justify: Literal["left", "right"] = "right" if column in _NUMBERS else "left"
        made.add_column(column, overflow="ellipsis", no_wrap=True, justify=justify)
    return made


def section(title: str) -> Text:
    """Write a heading, after an empty line."""
    return Text(f"\n{title}", style="bold")


def indented(content: RenderableType, columns: int) -> RenderableType:
    """Indent a part of a screen."""
    return Padding(content, (0, 0, 0, columns))


def labelled(name: str, value: str | Text, width: int, style: str = "") -> RenderableType:
    """Write a label in a column of its own, and its value, which may take several lines, beside it."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=width, style="dim")
    grid.add_column()
    grid.add_row(name, Text(value, style=style) if isinstance(value, str) else value)
    return item(grid)


def item(content: RenderableType) -> RenderableType:
    """Indent a finding."""
    return indented(content, 1)


def marked(sign: str, style: str, text: Text | str) -> RenderableType:
    """Put a sign before a text, whose further lines begin below its first."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text.assemble("  ", (sign, style)), Text.assemble(text))
    return grid


def hanging(text: str, style: str = "") -> RenderableType:
    """Indent a finding's text."""
    return indented(Text(fmt.one_line(text, 500), style=style), 3)


def fix(text: str) -> RenderableType:
    """Write what to do; nothing for an empty text."""
    if text:
        return indented(Text(f"→ {fmt.one_line(text, 500)}", style="green"), 3)
    # A Text ends its line, so an empty one would be an empty line.
    return Text(end="")


def example(advice: Advice) -> Iterator[RenderableType]:
    """Show what the advice has of: the code before and after, and a switch with its risk."""
    if advice.before and advice.after:
        yield _code("before", advice.before)
        yield _code("after", advice.after)
    if advice.switch:
        yield hanging(f"Or switch: {advice.switch}")
        yield hanging(f"   Risk: {advice.risk}")


def _code(title: str, code: str) -> RenderableType:
    text = Text(no_wrap=True, overflow="ellipsis")
    for number, line in enumerate(code.rstrip().splitlines()):
        text.append(f"{title if not number else '':>6} ", style="dim")
        text.append(f"│ {fmt.plain(line)}\n", style="green" if title == "after" else "dim")
    text.rstrip()
    return indented(text, 3)


def diff_style(line: str) -> str:
    """Return the style for a line of a unified diff."""
    if line.startswith("+"):
        return "green"
    if line.startswith("-"):
        return "red"
    return "dim"


def more(
    number: int, noun: str = "", see: str = "--json", *, most: int = MOST, before: str = "  ", several: str = ""
) -> Iterator[RenderableType]:
    """Say how many items the screen leaves out, and where to see them; without a noun, how many more.

    `before` is the indent, after a line break if the line stands apart; `several` an irregular plural of the noun.
    """
    left = number - most
    if left > 0:
        what = fmt.count(left, f"more {noun}", several and f"more {several}") if noun else f"{left} more"
        yield Text(f"{before}and {what}: see {see}", style="dim")


def capped(rows: Sequence[_Row], most: int, *, all_of_it: bool) -> Sequence[_Row]:
    """Return the rows that a screen lists: all of them with `--all`, else the first ones."""
    if all_of_it:
        return rows
    return rows[:most]


def highlighted(text: str, lexer: str) -> Verbatim:
    """Highlight code; `lexer` is Pygments' name for the language."""
    from rich.syntax import Syntax  # with Pygments, which is slow to import

    return Verbatim(Syntax(text, lexer, theme=_THEME, background_color="default").highlight(text))


def columned(width: int, columns: tuple[str, ...], rows: Sequence[tuple[str | Text, ...]]) -> Table:
    """Return a table. Columns marked with `>` hold numbers and are never cut; the first two text columns may be cut."""
    # On a narrow screen, names need the room more than the gaps do.
    gap = GAP if width >= WIDE else 1
    table = Table(box=None, padding=(0, gap, 0, 0), header_style="dim", show_edge=False)
    for column in columns:
        table.add_column(
            column.lstrip(">"), no_wrap=True, overflow="ellipsis", justify="right" if column.startswith(">") else "left"
        )
    # Rich shortens every column of a table that is too wide, also those of numbers: so what names may take is computed
    # here.
    widths = [max(map(len, cells)) for cells in zip((name.lstrip(">") for name in columns), *rows, strict=True)]
    has_second = not columns[1].startswith(">")
    left = width - gap * len(columns) - sum(widths[2 if has_second else 1 :])
    second = min(widths[1], max(left - _FIRST, _SECOND)) if has_second else 0
    first = left - second
    for row in rows:
        rest = (fmt.one_line(str(row[1]), second), *row[2:]) if second else row[1:]
        table.add_row(cut(str(row[0]), max(first, _SHORTEST)), *rest)
    return table


def cut(name: str, limit: int) -> str:
    """Cut a name in the middle: kernel names start alike and end in a number."""
    end = limit // 3
    if len(name) <= limit:
        return name
    return f"{name[: limit - end - 1]}…{name[-end:]}"


def micro(seconds: float | None) -> str:
    """Write a kernel's time; empty if it is not known."""
    return fmt.known(seconds, lambda each: fmt.microseconds(each * 1e6), "")
