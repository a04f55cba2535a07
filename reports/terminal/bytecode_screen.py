"""Screen of `ctrace bytecode`: how Dynamo rewrote each function, as a diff or as Python if proven equal.

The diff of bytecode is unified or side by side.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest
from textwrap import wrap

from msgspec import Struct
from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.facts.bytecode_facts import Instruction
from ctrace.inspector.features.bytecode.bytecode_scene import BytecodePiece, PieceKind
from ctrace.inspector.features.bytecode.bytecode_view import (
    MOST_COMPILATIONS,
    MOST_FUNCTIONS,
    BytecodeDocument,
    DiffRow,
    Explained,
    FunctionCode,
    SourceProven,
    SourceRefused,
)
from ctrace.inspector.source.text import python_lines
from ctrace.reports import format as fmt
from ctrace.reports.terminal.widgets import capped, indented, more, section

_THEME = "ansi_dark"
# Chosen: the screen indents what belongs to a heading.
_INDENT = 2
_FOLDED = frozenset((PieceKind.FRAME, PieceKind.TIMER, PieceKind.CLEANUP, PieceKind.DEAD))
"""Kinds of insertions that the description explains without the instructions."""
_FEW = 2
"""The most instructions that such an insertion may have to be shown in full."""
_SHOWN = 3
"""How many insertions of one kind in a row to show before the rest is counted."""
_MANY = 6
"""The most insertions of one kind in a row that are all shown."""
_LINES = 4
"""The most lines of one text to show."""
_MORE: dict[PieceKind | None, str] = {
    PieceKind.INPUT: "inputs",
    PieceKind.PASS: "values for the resume function",
    PieceKind.CHANGE: "side effects",
}
# Chosen: most names of instructions fit; on a half of a narrow screen, the meaning needs the room.
_NAME = 24
_NARROW_NAME = 18


def source_screen(document: BytecodeDocument, width: int, *, all_of_it: bool = False) -> Iterator[RenderableType]:
    """Show the new code of each function as Python source, and say once how ctrace checked it."""
    if not document.functions:
        yield _no_bytecode(document)
        return
    checked: dict[str, None] = {}
    # The code stands among sources, which are not side by side either.
    layout = DiffLayout(width, beside=False, all_of_it=False)
    shown = capped(document.compilations, MOST_COMPILATIONS, all_of_it=all_of_it)
    for compilation in shown:
        match compilation:
            case SourceProven(each, found):
                yield from _source_title(document, each)
                checked[found.how_checked] = None
                yield _python(found.text, width - _INDENT)
            case SourceRefused(each, refused):
                yield from _source_title(document, each)
                yield Text(f"No source: {fmt.one_line(refused.why)} The bytecode instead:", style="yellow")
                yield from diff_lines(each.rows, each.codes.before.instructions, _listing(document, each), layout)
    for how in checked:
        yield Text(f"\nHow it was checked: {how}", style="dim")
    yield from more(document.chosen, "compilation", _SELECT, most=len(shown))


def _source_title(document: BytecodeDocument, each: Explained) -> Iterator[Text]:
    yield title(each, document.cwd)
    yield Text(fmt.one_line("; ".join(each.outline), 600), style="dim")


def _listing(document: BytecodeDocument, each: Explained) -> list[str]:
    return python_lines(document.listings.get(each.codes.before.file, ""))


def _python(text: str, width: int) -> RenderableType:
    # Torch ends the names of compiled functions in an id that is another one in each run.
    lines = map(fmt.plain, fmt.without_unique_part(text).splitlines())
    shown = "\n".join(part for line in lines for part in _broken(line, width))
    from rich.syntax import Syntax  # with Pygments, which is slow to import

    code = Syntax(shown, "python", theme=_THEME, background_color="default", word_wrap=True)
    return indented(code, _INDENT)


def _broken(line: str, width: int) -> Iterator[str]:
    """Break a long line after commas, where it stays valid Python."""
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    while len(line) > width:
        # A comment that is broken would go on as code.
        end = line.rfind(", ", len(indent), width)
        if end < 0 or line.lstrip().startswith("#"):
            break
        yield line[: end + 1]
        line = indent + line[end + 2 :]
    yield line


SIDE_BY_SIDE = 120
"""The screen width from which old and new code are shown side by side."""
# Chosen: recompilations of one function look alike.
_RECOMPILES = 3
_MARKS = "- original code, + added by Dynamo"
_COLUMNS = "columns: line, offset, opcode, argument, meaning"
_MISSING = (
    "\nNo bytecode in this log: torch's own logs (TORCH_TRACE) and logs of older ctrace versions have none. "
    "Capture it with `ctrace bytecode TARGET`."
)
_NOTHING = "\nNo bytecode: nothing was compiled."
_SELECT = "--graph ID, --function NAME or --all"


def bytecode_screen(
    document: BytecodeDocument, width: int, *, all_of_it: bool = False, side_by_side: bool | None = None
) -> Iterator[RenderableType]:
    """Show the functions and the selected diffs, side by side if the screen is wide enough, unless that is chosen."""
    if not document.functions:
        yield _no_bytecode(document)
        return
    is_summary = document.choice.is_open
    if is_summary:
        yield from _summary(document, all_of_it)
    shown = capped(document.compilations, 1, all_of_it=all_of_it or not is_summary)
    beside = width >= SIDE_BY_SIDE if side_by_side is None else side_by_side
    layout = DiffLayout(width, beside, all_of_it)
    for each in shown:
        if isinstance(each, Explained):
            yield from _diff(document, each, layout)
    if left := fmt.some(document.chosen - len(shown), "more diff"):
        yield Text(f"\n{left}: see {_SELECT}", style="dim")


def _no_bytecode(document: BytecodeDocument) -> Text:
    return Text(_MISSING if document.was_compiled else _NOTHING)


def _summary(document: BytecodeDocument, all_of_it: bool) -> Iterator[RenderableType]:
    yield section("Functions that Dynamo rewrote")
    shown = capped(document.functions, MOST_FUNCTIONS, all_of_it=all_of_it)
    for function in shown:
        place = fmt.place(function.file, function.line, document.cwd)
        yield Text.assemble(" ", (fmt.one_line(function.name, 60), "bold"), f"  {place}")
        yield from _compilations(document, function, 3, all_of_it)
        for resume in function.resumes:
            yield Text(f"   after the graph break at line {resume.resumes_at}")
            yield from _compilations(document, resume, 5, all_of_it)
    yield from more(len(document.functions), "function", "--all", most=len(shown), before=" ")


def _compilations(
    document: BytecodeDocument, function: FunctionCode, indent: int, all_of_it: bool
) -> Iterator[RenderableType]:
    shown = capped(function.compiled, _RECOMPILES, all_of_it=all_of_it)
    for number, each in enumerate(shown):
        recompiled = "recompiled" if number else ""
        facts = fmt.joined(" · ", f"{each.before} → {each.after} instructions", recompiled)
        line = Text(" " * indent)
        line.append(f"{each.compilation.id:<5}", style="cyan").append(facts)
        yield line
        # Recompilations of a function are rewritten in the same steps, so the first one names them.
        steps = "; ".join(document.outlines.get(each.compilation.id, ()))
        if steps and not number:
            yield indented(Text(fmt.one_line(steps, 600), style="dim"), indent + 5)
    yield from more(len(function.compiled), "time", "--all", most=len(shown), before=" " * (indent + 5))


class DiffLayout(Struct, frozen=True):
    """How a diff is laid out."""

    width: int
    beside: bool
    all_of_it: bool


def _diff(document: BytecodeDocument, each: Explained, layout: DiffLayout) -> Iterator[RenderableType]:
    yield title(each, document.cwd)
    yield Text(f"{each.compiled.before} → {each.compiled.after} instructions; {_MARKS}; {_COLUMNS}", style="dim")
    yield from diff_lines(each.diff, each.codes.before.instructions, _listing(document, each), layout)


def diff_lines(
    rows: Sequence[DiffRow], old: Sequence[Instruction], source: Sequence[str], layout: DiffLayout
) -> Iterator[Text]:
    """Write a diff, line by line; `old` are the instructions before the rewrite."""
    drawing = _Drawing(old, source, layout)
    for kept, run in groupby(rows, key=lambda row: row.change == "same"):
        members = list(run)
        if kept:
            yield from drawing.kept(members)
        else:
            left = list(drawing.removed([row for row in members if row.after is None]))
            right = list(drawing.added([row for row in members if row.before is None]))
            yield from drawing.joined(left, right)
            # Behind new code, a reader no longer knows which line the kept instructions are of.
            drawing.restart(bool(right))


def title(each: Explained, cwd: str) -> Text:
    """Name a compilation, after an empty line."""
    at = each.compiled.compilation
    resumes = fmt.framed(", after the graph break at line ", at.resumes_at)
    name = each.codes.before.qualname if at.resumes_at is None else at.function
    return Text.assemble(
        "\n",
        (f"{at.id} {fmt.one_line(name, 60)}", "bold"),
        f" ({fmt.place(at.file, at.line, cwd)}){resumes}",
    )


class _Drawing:
    """Draws rows, and tracks the current source line."""

    def __init__(self, old: Sequence[Instruction], source: Sequence[str], layout: DiffLayout) -> None:
        self._old, self._source, self._layout = old, source, layout
        self._line: int | None = None
        self._half = (layout.width - 3) // 2 if layout.beside else layout.width

    def kept(self, members: list[DiffRow]) -> Iterator[Text]:
        """Draw instructions that are in both the old and the new code."""
        for piece, run in groupby(members, key=lambda row: row.piece):
            own = piece is not None and piece.kind is PieceKind.OWN
            yield from self.joined([], list(self._purpose(piece, 0)) if own else [])
            for row in run:
                yield from self.joined(self._heading(row), [])
                left = [self._instruction(row, old=True)] if self._layout.beside else []
                yield from self.joined(left, [self._instruction(row)])

    def restart(self, interrupted: bool) -> None:
        """Repeat the source line if instructions of the new code came in between."""
        if interrupted:
            self._line = None

    def removed(self, members: list[DiffRow]) -> Iterator[Text]:
        """Draw instructions of the old code, by source line."""
        for piece, run in groupby(members, key=lambda row: row.piece):
            group = list(run)
            folded = self._is_folded(piece, len(group))
            yield from self._purpose(piece, len(group) if folded else 0)
            for row in group if not folded else ():
                yield from self._heading(row)
                yield self._instruction(row)

    def added(self, members: list[DiffRow]) -> Iterator[Text]:
        """Draw instructions of the new code, each piece below its purpose."""
        found = [(piece, list(run)) for piece, run in groupby(members, key=lambda row: row.piece)]
        # A model has dozens of inputs, and each is a piece that says the same: the first ones show it.
        for kind, same in groupby(found, key=lambda pair: pair[0].kind if pair[0] else None):
            group = list(same)
            foldable = kind not in (None, PieceKind.OTHER) and not self._layout.all_of_it
            many = foldable and len(group) > _MANY
            for piece, run in group[: _SHOWN if many else len(group)]:
                yield from self._piece(piece, run)
            if many:
                left = group[_SHOWN:]
                number = sum(len(run) for _, run in left)
                yield from self._text(
                    f"▸ … {_MORE.get(kind, kind)}: {len(left)} more, {number} instructions: see --all"
                )

    def _piece(self, piece: BytecodePiece | None, run: list[DiffRow]) -> Iterator[Text]:
        folded = self._is_folded(piece, len(run))
        yield from self._purpose(piece, len(run) if folded else 0)
        if not folded:
            yield from map(self._instruction, run)

    def _purpose(self, piece: BytecodePiece | None, folded: int) -> Iterator[Text]:
        """Write the purpose of a piece of new code, and how many of its instructions are hidden."""
        if piece is not None:
            hidden = fmt.framed(" (", fmt.some(folded, "instruction"), ")")
            yield from self._text(f"▸ {piece.text}{hidden}")

    def _is_folded(self, piece: BytecodePiece | None, number: int) -> bool:
        return piece is not None and not self._layout.all_of_it and piece.kind in _FOLDED and number > _FEW

    def joined(self, left: list[Text], right: list[Text]) -> Iterator[Text]:
        """Put two columns side by side, or one below the other."""
        if not self._layout.beside:
            yield from (*left, *right)
            return
        for one, other in zip_longest(left, right):
            cell = one.copy() if one is not None else Text()
            cell.truncate(self._half, overflow="ellipsis", pad=True)
            line = Text.assemble(cell, (" │ ", "dim"), other or "")
            line.truncate(self._layout.width, overflow="ellipsis")
            line.no_wrap = True
            yield line

    def _heading(self, row: DiffRow) -> list[Text]:
        """Write the source line where its first instruction of the old code begins."""
        line = row.line
        if line is None or line == self._line:
            return []
        self._line = line
        source = self._source[line - 1].strip() if 0 < line <= len(self._source) else ""
        return [_cut(Text(fmt.plain(f"{line:>7} | {source}"), style="bold"), self._half)]

    def _text(self, text: str) -> list[Text]:
        lines = wrap(fmt.one_line(text), self._half, subsequent_indent="  ", max_lines=_LINES, placeholder="…")
        return [Text(line, style="cyan", no_wrap=True) for line in lines]

    def _instruction(self, row: DiffRow, *, old: bool = False) -> Text:
        mark, style = _LOOKS[row.change]
        # An instruction that is kept may have another offset and argument in the new code.
        each = self._old[row.before] if old and row.before is not None else row.shown
        line, arg = fmt.known(row.line, otherwise=""), fmt.known(each.arg, otherwise="")
        name = _NAME if self._half >= 70 else _NARROW_NAME
        about = fmt.one_line(fmt.without_unique_part(each.text), 200)
        text = f"{mark} {line:>5} {each.offset:>5} {fmt.one_line(each.opname, 40):<{name}} {arg:>4} {about}"
        return _cut(Text(text.rstrip(), style=style), self._half)


_LOOKS = {"same": (" ", "dim"), "removed": ("-", "red"), "added": ("+", "green")}


def _cut(text: Text, width: int) -> Text:
    text.no_wrap = True
    text.truncate(width, overflow="ellipsis")
    return text
