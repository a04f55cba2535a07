"""Screen of `ctrace bytecode`: how Dynamo rewrote each function, as a diff or as Python if proven equal."""

from collections.abc import Iterable, Iterator

from msgspec import Struct
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.bytecode.bytecode_view import (
    CompiledFunction,
    Explained,
    FunctionCode,
    explained,
    function_codes,
)
from ctrace.inspector.features.bytecode.decompile.reconstruct import FunctionSource, NotReconstructed, reconstruct
from ctrace.inspector.features.bytecode.outline import outline
from ctrace.reports import format as fmt
from ctrace.reports.terminal.bytecode.bytecode_diff_screen import DiffLayout, diff_lines, title
from ctrace.reports.terminal.widgets import MOST, headline, more, section

_THEME = "ansi_dark"
_INDENT = 2


def sources(session: Session, chosen: Iterable[CompiledFunction], width: int) -> Iterator[RenderableType]:
    """Show the new code of each function as Python source, and say once how ctrace checked it."""
    checked: dict[str, None] = {}
    for compiled in chosen:
        each = explained(session, compiled)
        yield title(session, each)
        yield Text(fmt.one_line("; ".join(outline(session, each)), 600), style="dim")
        match reconstruct(each.codes.after):
            case FunctionSource(text=text, how_checked=how):
                checked[how] = None
                yield _python(text, width - _INDENT)
            case NotReconstructed(why):
                yield Text(f"No source: {fmt.one_line(why)} The bytecode instead:", style="yellow")
                lines = session.listings.get(each.codes.before.file, "").splitlines()
                yield from diff_lines(each, lines, DiffLayout(width, beside=False, all_of_it=False, line=None))
    for how in checked:
        yield Text(f"\nHow it was checked: {how}", style="dim")


def _python(text: str, width: int) -> RenderableType:
    lines = map(fmt.plain, fmt.without_unique_part(text).splitlines())
    shown = "\n".join(part for line in lines for part in _broken(line, width))
    from rich.syntax import Syntax  # with Pygments, which is slow to import

    code = Syntax(shown, "python", theme=_THEME, background_color="default", word_wrap=True)
    return Padding(code, (0, 0, 0, _INDENT))


def _broken(line: str, width: int) -> Iterator[str]:
    """Break a long line after commas, where it stays valid Python."""
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    while len(line) > width:
        end = line.rfind(", ", len(indent), width)
        if end < 0 or line.lstrip().startswith("#"):
            break
        yield line[: end + 1]
        line = indent + line[end + 2 :]
    yield line


SIDE_BY_SIDE = 120
"""The screen width from which old and new code are shown side by side."""
_FUNCTIONS = 12
_RECOMPILES = 3
_MARKS = "- original code, + added by Dynamo"
_COLUMNS = "columns: line, offset, opcode, argument, meaning"
_MISSING = (
    "\nNo bytecode in this log: torch's own logs (TORCH_TRACE) and logs of older ctrace versions have none. "
    "Capture it with `ctrace bytecode TARGET`."
)
_NOTHING = "\nNo bytecode: nothing was compiled."


class Selection(Struct, frozen=True):
    """What to show of a run, and how."""

    chosen: tuple[CompiledFunction, ...]
    """The selected compilations."""
    whole: bool
    """Whether the user selected nothing, so that the screen shows a summary and the first diff."""
    line: int | None = None
    all_of_it: bool = False
    side_by_side: bool | None = None
    """None: side by side if the screen is wide enough."""
    source: bool = False
    """Show Python source where it is proven equal."""


def bytecode_screen(session: Session, selection: Selection, width: int) -> Iterator[RenderableType]:
    """Show the functions and the selected diffs."""
    yield headline(session)
    if not session.codes:
        yield Text(_MISSING if session.compilations else _NOTHING)
        return
    functions = function_codes(session)
    if selection.source:
        yield from sources(session, selection.chosen if selection.all_of_it else selection.chosen[:MOST], width)
        yield from more(
            0 if selection.all_of_it else len(selection.chosen), "compilation", "--graph ID, --function NAME or --all"
        )
        return
    if selection.whole:
        yield from _summary(session, functions, selection.all_of_it)
    shown = selection.chosen if selection.all_of_it or not selection.whole else selection.chosen[:1]
    beside = width >= SIDE_BY_SIDE if selection.side_by_side is None else selection.side_by_side
    layout = DiffLayout(width, beside, selection.all_of_it, selection.line)
    for compiled in shown:
        yield from _diff(session, explained(session, compiled), layout)
    if len(shown) < len(selection.chosen):
        left = fmt.count(len(selection.chosen) - len(shown), "more diff")
        yield Text(f"\n{left}: see --graph ID, --function NAME or --all", style="dim")


def _summary(session: Session, functions: tuple[FunctionCode, ...], all_of_it: bool) -> Iterator[RenderableType]:
    yield section("Functions that Dynamo rewrote")
    most = len(functions) if all_of_it else _FUNCTIONS
    for function in functions[:most]:
        yield Text.assemble(" ", (fmt.one_line(function.name, 60), "bold"), f"  {_place(session, function)}")
        yield from _compilations(session, function, 3, all_of_it)
        for resume in function.resumes:
            yield Text(f"   after the graph break at line {resume.resumes_at}")
            yield from _compilations(session, resume, 5, all_of_it)
    if len(functions) > most:
        yield Text(f" and {fmt.count(len(functions) - most, 'more function')}: see --all", style="dim")


def _place(session: Session, function: FunctionCode) -> str:
    return fmt.place(function.file, function.line, session.environment.cwd)


def _compilations(session: Session, function: FunctionCode, indent: int, all_of_it: bool) -> Iterator[RenderableType]:
    most = len(function.compiled) if all_of_it else _RECOMPILES
    for number, each in enumerate(function.compiled[:most]):
        steps = "; ".join(outline(session, explained(session, each)))
        recompiled = "recompiled" if number else ""
        counts = f"{each.before} → {each.after} instructions"
        facts = " · ".join(part for part in (counts, recompiled) if part)
        line = Text(" " * indent)
        line.append(f"{each.compilation.id:<5}", style="cyan").append(facts)
        yield line
        if steps and not number:
            yield Padding(Text(fmt.one_line(steps, 600), style="dim"), (0, 0, 0, indent + 5))
    if len(function.compiled) > most:
        more = fmt.count(len(function.compiled) - most, "more time", "more times")
        yield Text(f"{' ' * (indent + 5)}and {more}: see --all", style="dim")


def _diff(session: Session, each: Explained, layout: DiffLayout) -> Iterable[RenderableType]:
    yield title(session, each)
    yield Text(f"{each.compiled.before} → {each.compiled.after} instructions; {_MARKS}; {_COLUMNS}", style="dim")
    source = session.listings.get(each.codes.before.file, "").splitlines()
    yield from diff_lines(each, source, layout)
