"""Outline a function's rewritten code in a few words: its graph, what runs eagerly, and where it continues."""

from collections.abc import Iterator

from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.bytecode.bytecode_scene import BytecodePiece, PieceKind
from ctrace.inspector.features.bytecode.bytecode_view import DiffRow, Explained, instruction, line_of, rows
from ctrace.inspector.knowledge.counting import count

_MOST_LINES = 3


def outline(session: Session, each: Explained) -> tuple[str, ...]:
    """Return the steps of the new code in order."""
    steps: list[str] = []
    changes = _changes(each)
    for piece in each.pieces:
        match piece.kind:
            case PieceKind.GRAPH if piece.text.startswith("calls"):
                steps.append(piece.text)
                steps += [f"replays side effects in {count(changes, 'write')}"] if changes else []
            case PieceKind.BRANCH if piece.text.startswith("branches"):
                steps.append(piece.text.partition(";")[0])
            case PieceKind.COMPREHENSION if piece.text.startswith("runs"):
                steps.append(piece.text)
            case PieceKind.OWN:
                steps.append(_OWN)
            case PieceKind.RESUME if piece.text.startswith("goes on"):
                steps.append(_goes_on(piece))
            case PieceKind.RETURN if piece.text.startswith("returns") and not changes and len(steps) < 2:
                steps.append("returns")
    return tuple(_with_own(dict.fromkeys(steps), _own_lines(session, each)))


_OWN = "own"
_LOADS = ("LOAD_", "PUSH_NULL", "PRECALL", "KW_NAMES", "COPY", "SWAP", "NOP")


def _changes(each: Explained) -> int:
    kinds = [piece for piece in each.pieces if piece.kind is PieceKind.CHANGE and piece.text.startswith("replays")]
    return len(kinds)


def _goes_on(piece: BytecodePiece) -> str:
    where = piece.text.partition(" in a resume function")[0].rstrip(",")
    return f"{where} ({', '.join(piece.link) or 'not compiled'})"


def _own_lines(session: Session, each: Explained) -> list[str]:
    """Describe the user's lines that remain."""
    source = session.listings.get(each.codes.before.file, "").splitlines()
    lines = sorted({line for row in rows(each) if _is_own(row) and (line := line_of(each, row)) is not None})
    if len(lines) > _MOST_LINES:
        return [f"lines {lines[0]} to {lines[-1]} run eagerly"]
    traced = {line_of(each, row) for row in rows(each) if _is_traced(each, row)}
    named = [(f"part of line {line}" if line in traced else f"line {line}", line) for line in lines]
    return [
        f"{name} runs eagerly{f': {source[line - 1].strip()}' if line <= len(source) else ''}" for name, line in named
    ]


def _is_own(row: DiffRow) -> bool:
    return row.piece is not None and row.piece.kind is PieceKind.OWN


def _is_traced(each: Explained, row: DiffRow) -> bool:
    """Whether a line of the diff is user work that Dynamo traced; loads are not, because torch repeats them."""
    works = not instruction(each, row).opname.startswith(_LOADS)
    return works and row.piece is not None and row.piece.kind is PieceKind.TRACED


def _with_own(steps: dict[str, None], own: list[str]) -> Iterator[str]:
    for text in steps:
        if text == _OWN:
            yield from own
        else:
            yield text
