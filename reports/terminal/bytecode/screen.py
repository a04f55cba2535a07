"""`ctrace bytecode` on screen: what Dynamo made of each function's bytecode, and what each piece of it is for.

What the new code of a function does, as Python; as bytecode where that cannot be proven.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.console import RenderableType
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

from ctrace.inspector.bytecode.decompile.reconstruct import Refused, Source, reconstruct
from ctrace.inspector.bytecode.outline import outline
from ctrace.inspector.bytecode.view import Compiled, Explained, FunctionCode, explained, function_codes
from ctrace.inspector.model.session import Session
from ctrace.reports import format as fmt
from ctrace.reports.terminal.bytecode.diff import Layout, diff_lines, title
from ctrace.reports.terminal.parts import MOST, headline, more, section

_THEME = "ansi_dark"
_INDENT = 2


def sources(session: Session, chosen: Iterable[Compiled], width: int) -> Iterator[RenderableType]:
    """Show the source of each new code, and how it was checked, which is the same for all."""
    checked: dict[str, None] = {}
    for compiled in chosen:
        each = explained(session, compiled)
        yield title(session, each)
        yield Text(fmt.one_line("; ".join(outline(session, each)), 600), style="dim")
        match reconstruct(each.codes.after):
            case Source(text=text, how_checked=how):
                checked[how] = None
                yield _python(text, width - _INDENT)
            case Refused(why):
                yield Text(f"No source: {fmt.one_line(why)} Its bytecode:", style="yellow")
                lines = session.listings.get(each.codes.before.file, "").splitlines()
                yield from diff_lines(each, lines, Layout(width, beside=False, all_of_it=False, line=None))
    for how in checked:
        yield Text(f"\nHow it was checked: {how}", style="dim")


def _python(text: str, width: int) -> RenderableType:
    lines = map(fmt.plain, fmt.without_unique_part(text).splitlines())
    shown = "\n".join(part for line in lines for part in _broken(line, width))
    code = Syntax(shown, "python", theme=_THEME, background_color="default", word_wrap=True)
    return Padding(code, (0, 0, 0, _INDENT))


def _broken(line: str, width: int) -> Iterator[str]:
    """Break a long line behind commas, where it stays Python."""
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    while len(line) > width:
        end = line.rfind(", ", len(indent), width)
        if end < 0 or line.lstrip().startswith("#"):
            break
        yield line[: end + 1]
        line = indent + line[end + 2 :]
    yield line


SIDE_BY_SIDE = 120
"""Columns from which both codes are shown beside each other."""
_FUNCTIONS = 12
_RECOMPILES = 3
_MARKS = "- of the old code, + put in by Dynamo"
_COLUMNS = "columns: line, offset, opcode, argument, meaning"
_MISSING = (
    "\nNo bytecode: this log does not hold it. Torch's own logs (TORCH_TRACE) and those of older versions of ctrace do "
    "not. Capture it with `ctrace bytecode TARGET`."
)
_NOTHING = "\nNo bytecode: nothing was compiled."


@dataclass(frozen=True, slots=True)
class Asked:
    """What of a run is to be shown, and how."""

    chosen: tuple[Compiled, ...]
    """The compilations that were asked for."""
    whole: bool
    """Whether nothing was chosen: then the first one stands for all."""
    line: int | None = None
    all_of_it: bool = False
    side_by_side: bool | None = None
    """None: where the screen is wide enough."""
    source: bool = False
    """As Python, where that is proven to be the same."""


def bytecode_screen(session: Session, asked: Asked, width: int) -> Iterator[RenderableType]:
    """Show the functions, and the diffs that were asked for."""
    yield headline(session)
    if not session.codes:
        yield Text(_MISSING if session.compilations else _NOTHING)
        return
    functions = function_codes(session)
    if asked.source:
        yield from sources(session, asked.chosen if asked.all_of_it else asked.chosen[:MOST], width)
        yield from more(
            0 if asked.all_of_it else len(asked.chosen), "compilation", "--graph ID, --function NAME or --all"
        )
        return
    if asked.whole:
        yield from _summary(session, functions, asked.all_of_it)
    shown = asked.chosen if asked.all_of_it or not asked.whole else asked.chosen[:1]
    beside = width >= SIDE_BY_SIDE if asked.side_by_side is None else asked.side_by_side
    layout = Layout(width, beside, asked.all_of_it, asked.line)
    for compiled in shown:
        yield from _diff(session, explained(session, compiled), layout)
    if len(shown) < len(asked.chosen):
        left = fmt.count(len(asked.chosen) - len(shown), "more diff")
        yield Text(f"\n{left}: see --graph ID, --function NAME or --all", style="dim")


def _summary(session: Session, functions: tuple[FunctionCode, ...], all_of_it: bool) -> Iterator[RenderableType]:
    yield section("Functions that Dynamo rewrote")
    most = len(functions) if all_of_it else _FUNCTIONS
    for function in functions[:most]:
        yield Text.assemble(" ", (fmt.one_line(function.name, 60), "bold"), f"  {_place(session, function)}")
        yield from _compilations(session, function, 3, all_of_it)
        for resume in function.resumes:
            yield Text(f"   and after the break of line {resume.resumes_at}")
            yield from _compilations(session, resume, 5, all_of_it)
    if len(functions) > most:
        yield Text(f" and {fmt.count(len(functions) - most, 'more function')}: see --all", style="dim")


def _place(session: Session, function: FunctionCode) -> str:
    return fmt.place(function.file, function.line, session.environment.cwd)


def _compilations(session: Session, function: FunctionCode, indent: int, all_of_it: bool) -> Iterator[RenderableType]:
    most = len(function.compiled) if all_of_it else _RECOMPILES
    for number, each in enumerate(function.compiled[:most]):
        told = "; ".join(outline(session, explained(session, each)))
        again = "compiled again" if number else ""
        counts = f"{each.before} → {each.after} instructions"
        facts = " · ".join(part for part in (counts, again) if part)
        line = Text(" " * indent)
        line.append(f"{each.compilation.id:<5}", style="cyan").append(facts)
        yield line
        if told and not number:
            yield Padding(Text(fmt.one_line(told, 600), style="dim"), (0, 0, 0, indent + 5))
    if len(function.compiled) > most:
        more = fmt.count(len(function.compiled) - most, "more time", "more times")
        yield Text(f"{' ' * (indent + 5)}and {more}: see --all", style="dim")


def _diff(session: Session, each: Explained, layout: Layout) -> Iterable[RenderableType]:
    yield title(session, each)
    yield Text(f"{each.compiled.before} → {each.compiled.after} instructions; {_MARKS}; {_COLUMNS}", style="dim")
    source = session.listings.get(each.codes.before.file, "").splitlines()
    yield from diff_lines(each, source, layout)
