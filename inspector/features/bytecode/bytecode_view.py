"""Show how Dynamo rewrote the bytecode of each function: what changed, and the purpose of each new piece.

Outline a function's rewritten code in a few words: its graph, what runs eagerly, and where it continues.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from ctrace.inspector.facts.bytecode_facts import Instruction, Rewritten
from ctrace.inspector.facts.session import Compilation, Session
from ctrace.inspector.features.bytecode.bytecode_scene import BytecodePiece, PieceKind, PieceRole, pieces
from ctrace.inspector.features.bytecode.inserted_bytecode import in_comprehensions, roles_of, surely_torchs
from ctrace.inspector.features.bytecode.opcodes import reachable
from ctrace.inspector.features.bytecode.ownership import Added, Edit, KeptInstruction, Removed, diff, taken_over
from ctrace.inspector.features.bytecode.resume_functions import CALLED, old_begin, resume_index, resume_of, resume_point
from ctrace.inspector.features.bytecode.stackwalk import walked
from ctrace.inspector.knowledge.counting import count


class CompiledFunction(Struct, frozen=True):
    """One compilation of a function, with its number of instructions before and after the rewrite."""

    compilation: Compilation
    before: int
    after: int


class FunctionCode(Struct, frozen=True):
    """A function that Dynamo rewrote, with its resume functions in the order of the lines where they continue."""

    name: str
    """The qualified name."""
    file: str
    line: int
    resumes_at: int | None
    """For a resume function, the line of the break."""
    compiled: tuple[CompiledFunction, ...]
    """The compilations in order; all after the first are recompilations."""
    resumes: tuple["FunctionCode", ...] = ()

    @property
    def all(self) -> tuple[CompiledFunction, ...]:
        """The compilations of the function and of its resume functions."""
        return (*self.compiled, *(each for resume in self.resumes for each in resume.compiled))


class Explained(Struct, frozen=True):
    """The code of a compilation after and before the rewrite."""

    compiled: CompiledFunction
    codes: Rewritten
    edits: tuple[Edit, ...]
    pieces: tuple[BytecodePiece, ...]
    """The purpose of the new code's instructions; every instruction belongs to a piece."""
    old: tuple[BytecodePiece, ...]
    """What happened to old instructions that are not in the new code."""


def function_codes(session: Session) -> tuple[FunctionCode, ...]:
    """List the functions whose bytecode the run has, in the order in which Dynamo traced them."""
    frames: dict[str, list[CompiledFunction]] = {}
    for each in session.compilations:
        if (codes := session.codes.get(each.id)) is not None:
            counted = CompiledFunction(each, len(codes.before.instructions), len(codes.after.instructions))
            frames.setdefault(each.frame, []).append(counted)
    made = {frame: _function(session, compiled) for frame, compiled in frames.items()}
    owners = _owners(session, made)
    return tuple(_with_resumes(frame, made, owners) for frame in made if owners[frame] == frame)


def _function(session: Session, compiled: list[CompiledFunction]) -> FunctionCode:
    first = compiled[0].compilation
    code = session.codes[first.id].before
    name = code.qualname if first.resumes_at is None and code.name == first.function else first.function
    return FunctionCode(name, first.file, first.line, first.resumes_at, tuple(compiled))


def _with_resumes(frame: str, made: Mapping[str, FunctionCode], owners: Mapping[str, str]) -> FunctionCode:
    own = made[frame]
    below = [made[each] for each, owner in owners.items() if owner == frame and each != frame]
    ordered = tuple(sorted(below, key=lambda each: (each.resumes_at or 0, each.compiled[0].compilation.id)))
    return FunctionCode(own.name, own.file, own.line, own.resumes_at, own.compiled, ordered)


def _owners(session: Session, made: Mapping[str, FunctionCode]) -> dict[str, str]:
    """Map each function's frame to the frame that owns it: a resume function belongs to the function it resumes."""
    callers: dict[str, str] = {}
    for frame, function in made.items():
        for compiled in function.compiled:
            codes = session.codes[compiled.compilation.id]
            for name in codes.after.names:
                if name.startswith(CALLED):
                    for called in resume_of(name, codes.before, session.codes).ids:
                        callers.setdefault(called.partition("/")[0], frame)
    return {frame: _owner(frame, made, callers) for frame in made}


def _owner(frame: str, made: Mapping[str, FunctionCode], callers: Mapping[str, str]) -> str:
    seen = {frame}
    while made[frame].resumes_at is not None and (above := callers.get(frame)) is not None and above not in seen:
        frame = above
        seen.add(frame)
    if made[frame].resumes_at is None:
        return frame
    return _nearest(frame, made)


def _nearest(frame: str, made: Mapping[str, FunctionCode]) -> str:
    """Return the last earlier function with that name in the file, or the function itself if there is none."""
    resume = made[frame]
    name = resume.name.rpartition(".")[2]
    above = [
        (each.line, other)
        for other, each in made.items()
        if each.resumes_at is None
        and (each.file, each.name.rpartition(".")[2]) == (resume.file, name)
        and each.line <= resume.line
    ]
    return max(above)[1] if above else frame


def explained(session: Session, compiled: CompiledFunction) -> Explained:
    """Align old and new code of a compilation, and explain each piece of the new code."""
    compile_id = compiled.compilation.id
    codes = session.codes[compile_id]
    steps = walked(codes.after)
    pairs = taken_over(codes, steps, surely_torchs(steps, codes.before.names))
    own = {new: codes.before.instructions[old].line for old, new in pairs}
    roles = roles_of(compile_id, session.codes, steps, own, {graph.id for graph in session.graphs})
    kept = {old for old, _ in pairs}
    old = pieces(_old_roles(session, compile_id, codes, kept))
    return Explained(compiled, codes, diff(codes.before, codes.after, pairs), pieces(roles), old)


def _old_roles(session: Session, compile_id: str, codes: Rewritten, kept: set[int]) -> list[PieceRole | None]:
    """Return what happened to each old instruction that is not in the new code."""
    code = codes.before
    runs = reachable(code)
    later = _later(codes, session) | in_comprehensions(code, codes.after)
    begin = old_begin(code) if resume_point(code) is not None else 0
    has_graph = any(graph.id == compile_id for graph in session.graphs)
    traced = PieceRole(PieceKind.TRACED, f"traced by Dynamo{f'; replaced by graph {compile_id}' if has_graph else ''}")
    roles: list[PieceRole | None] = []
    for at in range(len(code.instructions)):
        if at in kept:
            roles.append(None)
        elif at < begin:
            roles.append(_PROLOGUE)
        elif at not in runs:
            roles.append(_DEAD)
        else:
            roles.append(later.get(at, traced))
    return roles


def _later(codes: Rewritten, session: Session) -> dict[int, PieceRole]:
    """Map indexes of the old code to the resume functions that continue with them."""
    found: dict[int, PieceRole] = {}
    for name in codes.after.names:
        at = resume_index(name, codes.before) if name.startswith(CALLED) else None
        if at is not None:
            ids = resume_of(name, codes.before, session.codes).ids
            where = f"the resume function {', '.join(ids)}" if ids else "a resume function that was not compiled"
            text = f"left to {where}"
            role = PieceRole(PieceKind.LATER, text, ids)
            for index in reachable(codes.before, at):
                found.setdefault(index, role)
    return found


_PROLOGUE = PieceRole(
    PieceKind.PROLOGUE, "prologue of a resume function: restores the values and jumps to where it continues"
)
_DEAD = PieceRole(PieceKind.DEAD, "rest of the original function: never runs in this resume function")


class DiffRow(Struct, frozen=True):
    """One line of the diff: an instruction of the old code, the new code, or both."""

    before: int | None
    after: int | None
    piece: BytecodePiece | None
    """The purpose of a new instruction, or what happened to an old one."""


def rows(each: Explained) -> tuple[DiffRow, ...]:
    """Return the diff line by line."""
    new = {at: piece for piece in each.pieces for at in range(piece.first, piece.last + 1)}
    old = {at: piece for piece in each.old for at in range(piece.first, piece.last + 1)}
    found = []
    for edit in each.edits:
        match edit:
            case KeptInstruction(before, after):
                found.append(DiffRow(before, after, new.get(after)))
            case Removed(before):
                found.append(DiffRow(before, None, old.get(before)))
            case Added(after, _):
                found.append(DiffRow(None, after, new.get(after)))
    return tuple(found)


def instruction(each: Explained, row: DiffRow) -> Instruction:
    """Return the instruction of a diff row; the new one if both exist."""
    if row.after is not None:
        return each.codes.after.instructions[row.after]
    return each.codes.before.instructions[row.before or 0]


def line_of(each: Explained, row: DiffRow) -> int | None:
    """Return the source line of a diff row, from the old code if the instruction is in both."""
    if row.before is not None:
        return each.codes.before.instructions[row.before].line
    return each.codes.after.instructions[row.after or 0].line


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
