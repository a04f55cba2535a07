"""A bytecode diff as lines: unified or side by side."""

from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest
from textwrap import wrap

from msgspec import Struct
from rich.text import Text

from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.bytecode.bytecode_view import DiffRow, Explained, instruction, line_of, rows
from ctrace.inspector.features.bytecode.rewrites.bytecode_pieces import BytecodePiece, PieceKind
from ctrace.reports import format as fmt

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
_NAME = 24
_NARROW_NAME = 18


class DiffLayout(Struct, frozen=True):
    """How a diff is laid out."""

    width: int
    beside: bool
    all_of_it: bool
    line: int | None
    """Show only this source line."""


def diff_lines(each: Explained, source: Sequence[str], layout: DiffLayout) -> Iterator[Text]:
    """Write a diff, line by line."""
    shown = [row for row in rows(each) if layout.line is None or line_of(each, row) == layout.line]
    if not shown:
        yield Text(f"  nothing for line {layout.line}", style="dim")
    drawing = _Drawing(each, source, layout)
    for kept, run in groupby(shown, key=lambda row: row.before is not None and row.after is not None):
        members = list(run)
        if kept:
            yield from drawing.kept(members)
        else:
            left = list(drawing.removed([row for row in members if row.after is None]))
            right = list(drawing.added([row for row in members if row.before is None]))
            yield from drawing.joined(left, right)
            drawing.restart(bool(right))


def title(session: Session, each: Explained) -> Text:
    """Name a compilation, after an empty line."""
    at = each.compiled.compilation
    resumes = f", after the graph break at line {at.resumes_at}" if at.resumes_at is not None else ""
    name = each.codes.before.qualname if at.resumes_at is None else at.function
    return Text.assemble(
        "\n",
        (f"{at.id} {fmt.one_line(name, 60)}", "bold"),
        f" ({fmt.place(at.file, at.line, session.environment.cwd)}){resumes}",
    )


class _Drawing:
    """Draws rows, and tracks the current source line."""

    def __init__(self, each: Explained, source: Sequence[str], layout: DiffLayout) -> None:
        self._each, self._source, self._layout = each, source, layout
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
            hidden = f" ({fmt.count(folded, 'instruction')})" if folded else ""
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
        line = line_of(self._each, row)
        if line is None or line == self._line:
            return []
        self._line = line
        source = self._source[line - 1].strip() if 0 < line <= len(self._source) else ""
        return [_cut(Text(fmt.plain(f"{line:>7} | {source}"), style="bold"), self._half)]

    def _text(self, text: str) -> list[Text]:
        lines = wrap(fmt.one_line(text), self._half, subsequent_indent="  ", max_lines=_LINES, placeholder="…")
        return [Text(line, style="cyan", no_wrap=True) for line in lines]

    def _instruction(self, row: DiffRow, *, old: bool = False) -> Text:
        mark, style = _LOOKS[(row.before is not None, row.after is not None)]
        number = line_of(self._each, row)
        row = DiffRow(row.before, None, row.piece) if old else row
        each = instruction(self._each, row)
        line = "" if number is None else str(number)
        arg = "" if each.arg is None else str(each.arg)
        name = _NAME if self._half >= 70 else _NARROW_NAME
        about = fmt.one_line(fmt.without_unique_part(each.text), 200)
        text = f"{mark} {line:>5} {each.offset:>5} {fmt.one_line(each.opname, 40):<{name}} {arg:>4} {about}"
        return _cut(Text(text.rstrip(), style=style), self._half)


_LOOKS = {(True, True): (" ", "dim"), (True, False): ("-", "red"), (False, True): ("+", "green")}


def _cut(text: Text, width: int) -> Text:
    text.no_wrap = True
    text.truncate(width, overflow="ellipsis")
    return text
