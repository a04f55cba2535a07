"""`ctrace bytecode` on screen: what Dynamo made of each function's bytecode, and what each piece of it is for."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from ctrace.inspector.bytecode.outline import outline
from ctrace.inspector.bytecode.view import Compiled, Explained, FunctionCode, explained, function_codes
from ctrace.inspector.model.session import Session
from ctrace.reports import format as fmt
from ctrace.reports.terminal.bytecode.diff import Layout, diff_lines, title
from ctrace.reports.terminal.bytecode.source import sources
from ctrace.reports.terminal.parts import MOST, headline, more, section

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
