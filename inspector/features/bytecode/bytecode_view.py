"""What `ctrace bytecode` answers: how Dynamo rewrote each function, and the purpose of each new piece.

1. A function's old and new code are aligned. Two instructions are the same if they have the same name, the same
   resolved argument and the same source line, and if a jump's target is the same instruction too. Offsets, indices and
   distances may differ.
2. Pairs that only happen to be equal are taken apart. Torch copies an instruction that it cannot trace, and inserts new
   loads for its operands. So an instruction that only produces a value belongs to the user if a user instruction
   consumes the value. An instruction that drops or returns a value belongs to the user if a user instruction produced
   it.
3. What is left is explained, piece by piece (`inserted_bytecode.py`), and a function's rewritten code is outlined in a
   few words: its graph, what runs eagerly, and where it continues.
"""

from bisect import bisect_left
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Literal, NoReturn

from msgspec import Struct

from ctrace.inspector.errors import SelectionError, did_you_mean
from ctrace.inspector.facts.bytecode_facts import Code, Instruction, Rewritten
from ctrace.inspector.facts.session import Compilation, RunDocument, Session
from ctrace.inspector.features.bytecode.bytecode_scene import STARTS, BytecodePiece, PieceKind, PieceRole, pieces
from ctrace.inspector.features.bytecode.inserted_bytecode import in_comprehensions, roles_of, surely_torchs
from ctrace.inspector.features.bytecode.opcodes import index_at, reachable
from ctrace.inspector.features.bytecode.reconstruct import FunctionSource, NotReconstructed, reconstruct
from ctrace.inspector.features.bytecode.resume_functions import CALLED, old_begin, resume_index, resume_of, resume_point
from ctrace.inspector.features.bytecode.stackforms import ListOf, Value
from ctrace.inspector.features.bytecode.stackwalk import WalkStep, walked
from ctrace.inspector.grouping import grouped
from ctrace.inspector.knowledge.counting import count
from ctrace.inspector.source.text import python_lines

Pair = tuple[int, int]
"""Index of an instruction in the old code, and in the new one."""

_OF_CONSTANTS = frozenset(("LOAD_CONST", "RETURN_CONST", "KW_NAMES"))
_BEFORE_A_CALL = frozenset(("PRECALL", "KW_NAMES"))


class KeptInstruction(Struct, frozen=True):
    """An instruction of the old code that is also in the new code, with its encoding there."""

    before: int
    after: int
    offset: int
    arg: int | None
    line: int | None
    target: int | None
    label: str | None
    """For a jump, its target as `dis` prints it."""


class Removed(Struct, frozen=True):
    """An instruction that only the old code has."""

    before: int


class Added(Struct, frozen=True):
    """An instruction that only the new code has."""

    after: int
    instruction: Instruction


Edit = KeptInstruction | Removed | Added


def align(before: Code, after: Code, without: Container[int] = ()) -> tuple[Pair, ...]:
    """Pair as many equal reachable instructions as possible, in order. The result is deterministic.

    `without` are instructions of the new code that must not be paired.
    """
    runs = reachable(before)
    # A new object equals nothing: what never runs, or must not be paired, gets no partner.
    old: list[Hashable] = [key if at in runs else object() for at, key in enumerate(_keys(before))]
    new: list[Hashable] = [object() if at in without else key for at, key in enumerate(_keys(after))]
    return settled(before, after, _common(old, new))


def settled(before: Code, after: Code, pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    """Drop paired jumps whose targets are not paired; repeat until every paired jump has a paired target."""
    kept = dict(pairs)
    while True:
        astray = [pair for pair in kept.items() if not _same_target(before, after, pair, kept)]
        if not astray:
            return tuple(kept.items())
        for old, _ in astray:
            del kept[old]


def diff(before: Code, after: Code, pairs: Sequence[Pair]) -> tuple[Edit, ...]:
    """Return the edits that turn the old code into the new code, removals before additions."""
    edits: list[Edit] = []
    old = new = 0
    for next_old, next_new in (*pairs, (len(before.instructions), len(after.instructions))):
        edits += [Removed(index) for index in range(old, next_old)]
        edits += [Added(index, after.instructions[index]) for index in range(new, next_new)]
        if next_old < len(before.instructions):
            edits.append(_kept_instruction(next_old, next_new, after.instructions[next_new]))
        old, new = next_old + 1, next_new + 1
    return tuple(edits)


def apply(edits: Iterable[Edit], before: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """Apply the edits to the old instructions."""
    made = []
    for edit in edits:
        if isinstance(edit, Added):
            made.append(edit.instruction)
        elif isinstance(edit, KeptInstruction):
            old = before[edit.before]
            text = old.text if edit.label is None else edit.label
            made.append(Instruction(edit.offset, old.opname, edit.arg, text, edit.line, edit.target))
    return tuple(made)


def _kept_instruction(old: int, new: int, made: Instruction) -> KeptInstruction:
    label = made.text if made.target is not None else None
    return KeptInstruction(old, new, made.offset, made.arg, made.line, made.target, label)


def _same_target(before: Code, after: Code, pair: Pair, kept: dict[int, int]) -> bool:
    old, new = before.instructions[pair[0]].target, after.instructions[pair[1]].target
    if old is None or new is None:
        return old is new
    return kept.get(index_at(before, old)) == index_at(after, new)


def _keys(code: Code) -> list[Hashable]:
    lines = _lines(code)
    keys: list[Hashable] = []
    line: int | None = None
    # From the end, since these take the line of the call behind them.
    for at in range(len(lines) - 1, -1, -1):
        instruction = code.instructions[at]
        # Torch creates new PRECALL and KW_NAMES, on a different line than their call.
        if instruction.opname not in _BEFORE_A_CALL or not keys:
            line = lines[at]
        keys.append((instruction.opname, line, *_meaning(code, instruction)))
    keys.reverse()
    return keys


def _lines(code: Code) -> list[int | None]:
    """Return a line for each instruction; as in torch, an instruction without a line gets the previous one's."""
    lines: list[int | None] = []
    line: int | None = code.line
    for instruction in code.instructions:
        line = line if instruction.line is None else instruction.line
        lines.append(line)
    return lines


def _meaning(code: Code, instruction: Instruction) -> tuple[Hashable, ...]:
    """Return what an argument refers to, independent of its encoding."""
    arg = instruction.arg
    if instruction.target is not None:
        return ("jump",)
    if instruction.opname in _OF_CONSTANTS and arg is not None and arg < len(code.constants):
        constant = code.constants[arg]
        # A constant without text cannot be distinguished from others of its type.
        known = constant.code is not None or not constant.text.startswith("<")
        return (constant if known else id(constant),)
    # `dis` writes a two-argument `super()` like one without arguments (3.12, dis.py).
    flags = arg & 3 if instruction.opname == "LOAD_SUPER_ATTR" and arg is not None else None
    if instruction.text:
        return (instruction.text, flags)
    return (arg,)


def _common(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Pair]:
    """Return a longest common subsequence: pair the equal ends, then apply Hunt-Szymanski between them."""
    begin = 0
    # Torch leaves whole ends as they are; the rest is quadratic in the number of equal keys.
    while begin < min(len(old), len(new)) and old[begin] == new[begin]:
        begin += 1
    end = 0
    while end < min(len(old), len(new)) - begin and old[-1 - end] == new[-1 - end]:
        end += 1
    middle = _longest(old[begin : len(old) - end], new[begin : len(new) - end])
    first = [(index, index) for index in range(begin)]
    last = [(len(old) - end + index, len(new) - end + index) for index in range(end)]
    return [*first, *((begin + left, begin + right) for left, right in middle), *last]


def _longest(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Pair]:
    # Descending, or one old instruction could be paired twice in a chain.
    where = grouped(range(len(new) - 1, -1, -1), lambda index: new[index])
    ends: list[int] = []
    chains: list[tuple[Pair, object]] = []
    for left, key in enumerate(old):
        for right in where.get(key, ()):
            at = bisect_left(ends, right)
            chain = ((left, right), chains[at - 1] if at else None)
            if at == len(ends):
                ends.append(right)
                chains.append(chain)
            elif right < ends[at]:
                ends[at], chains[at] = right, chain
    return _unrolled(chains[-1] if chains else None)


def _unrolled(chain: object) -> list[Pair]:
    pairs = []
    while isinstance(chain, tuple):
        pair, chain = chain
        pairs.append(pair)
    return pairs[::-1]


_MAKES = ("LOAD_", "BUILD_", "PUSH_NULL", "COPY", "SWAP", "KW_NAMES", "PRECALL", "NOP")
_TAKES = frozenset(("POP_TOP", "RETURN_VALUE"))


def taken_over(code: Rewritten, steps: Mapping[int, WalkStep], torchs: frozenset[int]) -> tuple[Pair, ...]:
    """Pair the user instructions that are in the new code; `torchs` are certainly torch's."""
    users = _users(steps.values())
    prologue = _prologue(code.before)
    alone = set(torchs)
    while True:
        found = align(code.before, code.after, alone)
        kept = _owned(code, [pair for pair in found if pair[0] not in prologue], steps, users)
        # Accidental pairs may have blocked real ones.
        astray = {new for _, new in found} - {new for _, new in kept}
        if not astray:
            return kept
        alone |= astray


def _prologue(before: Code) -> frozenset[int]:
    """Return torch's prologue of a resume function, which is never copied."""
    if resume_point(before) is None:
        return frozenset()
    return frozenset(at for at in range(old_begin(before)) if before.instructions[at].opname not in STARTS)


def _owned(
    code: Rewritten, found: Iterable[Pair], steps: Mapping[int, WalkStep], users: Mapping[int, set[int]]
) -> tuple[Pair, ...]:
    """Drop pairs until the remaining ones are consistent."""
    pairs = list(found)
    while True:
        own = {new for _, new in pairs}
        kept = [pair for pair in pairs if _is_user_pair(pair[1], own, steps, users)]
        kept = list(settled(code.before, code.after, kept))
        if len(kept) == len(pairs):
            return tuple(kept)
        pairs = kept


def _users(steps: Iterable[WalkStep]) -> dict[int, set[int]]:
    """Map each producing instruction to the instructions that consume its value."""
    found: dict[int, set[int]] = {}
    for step in steps:
        for value in step.taken:
            found.setdefault(value.made, set()).add(step.index)
    return found


def _is_user_pair(index: int, own: set[int], steps: Mapping[int, WalkStep], users: Mapping[int, set[int]]) -> bool:
    step = steps.get(index)
    if step is None:
        return True
    name = step.instruction.opname
    # Torch works on its lists with the same instructions as the user: an operand that is not the user's tells.
    if any(_is_list(value) for value in step.taken) and not own.issuperset(value.made for value in step.taken):
        return False
    if name in _TAKES:
        # An operand of a handler has no producer.
        return step.taken[-1].made in own or step.taken[-1].made < 0
    if name in ("PRECALL", "KW_NAMES", "NOP", "SWAP", "PUSH_NULL"):
        return index + 1 in own
    if name.startswith(_MAKES):
        takers = users.get(index, set())
        # Without a consumer, nothing says whose it is: it counts as the user's, as the alignment found it.
        return not takers or not own.isdisjoint(takers)
    return True


def _is_list(value: Value) -> bool:
    return isinstance(value.form, ListOf)


class CompiledFunction(Struct, frozen=True):
    """One compilation of a function, with its number of instructions before and after the rewrite."""

    JSON: ClassVar[str] = "compilation=compilation.id before after"
    compilation: Compilation
    before: int
    after: int


class FunctionCode(Struct, frozen=True):
    """A function that Dynamo rewrote, with its resume functions in the order of the lines where they continue."""

    JSON: ClassVar[str] = "function=name file|relative line resumes_at compilations=compiled resume_functions=resumes"
    name: str
    """The qualified name."""
    file: str
    line: int
    resumes_at: int | None
    """For a resume function, the line of the break."""
    compiled: tuple[CompiledFunction, ...]  # in order; all after the first are recompilations
    resumes: tuple["FunctionCode", ...] = ()

    @property
    def all(self) -> tuple[CompiledFunction, ...]:
        """The compilations of the function and of its resume functions."""
        return (*self.compiled, *(each for resume in self.resumes for each in resume.compiled))


class DiffRow(Struct, frozen=True):
    """The code of a compilation after and before the rewrite.

    One line of their diff: an instruction of the old code, the new code, or both.
    """

    JSON: ClassVar[str] = (
        "change before after line offset=shown.offset opname=shown.opname arg=shown.arg argument=shown.text "
        "target=shown.target"
    )
    change: Literal["same", "added", "removed"]
    before: int | None
    after: int | None
    piece: BytecodePiece | None
    """The purpose of a new instruction, or what happened to an old one."""
    line: int | None  # the source line; from the old code if the instruction is in both
    shown: Instruction
    """The new instruction if both exist."""


class Explained(Struct, frozen=True, kw_only=True):
    """The code of a compilation after and before the rewrite, and what became of each instruction."""

    JSON: ClassVar[str] = (
        "compilation=compiled.compilation.id function=compiled.compilation.function "
        "file=compiled.compilation.file|relative line=compiled.compilation.line "
        "resumes_at=compiled.compilation.resumes_at python=codes.before.python before=compiled.before "
        "after=compiled.after outline pieces old_pieces=old diff"
    )
    compiled: CompiledFunction
    codes: Rewritten
    edits: tuple[Edit, ...]
    pieces: tuple[BytecodePiece, ...]  # the purpose of the new code's instructions; each belongs to a piece
    old: tuple[BytecodePiece, ...]  # what happened to old instructions that are not in the new code
    rows: tuple[DiffRow, ...]
    """The diff line by line."""
    diff: tuple[DiffRow, ...]  # those of one source line, or all
    outline: tuple[str, ...]  # the steps of the new code in order


class SourceRefused(Struct, frozen=True):
    """A compilation whose new code cannot be written as Python that is proven equal."""

    JSON: ClassVar[str] = "*of source source_refused=found.why"
    of: Explained
    found: NotReconstructed
    source: None = None


class SourceProven(Struct, frozen=True):
    """A compilation, and its new code as Python."""

    JSON: ClassVar[str] = "*of source=found.text source_checked=found.how_checked"
    of: Explained
    found: FunctionSource


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
                        # The first that calls it: a recompilation calls the same resume function.
                        callers.setdefault(called.partition("/")[0], frame)
    return {frame: _owner(frame, made, callers) for frame in made}


def _owner(frame: str, made: Mapping[str, FunctionCode], callers: Mapping[str, str]) -> str:
    seen = {frame}
    # A damaged log may have resume functions that call each other.
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


def explained(session: Session, compiled: CompiledFunction, line: int | None = None) -> Explained:
    """Align old and new code of a compilation, and explain each piece of the new code; `line` narrows the diff."""
    compile_id = compiled.compilation.id
    codes = session.codes[compile_id]
    steps = walked(codes.after)
    pairs = taken_over(codes, steps, surely_torchs(steps, codes.before.names))
    own = {new: codes.before.instructions[old].line for old, new in pairs}
    roles = roles_of(compile_id, session.codes, steps, own, {graph.id for graph in session.graphs})
    kept = {old for old, _ in pairs}
    old, new = pieces(_old_roles(session, compile_id, codes, kept)), pieces(roles)
    edits = diff(codes.before, codes.after, pairs)
    rows = tuple(_rows(codes, edits, old, new))
    return Explained(
        compiled=compiled,
        codes=codes,
        edits=edits,
        pieces=new,
        old=old,
        rows=rows,
        diff=tuple(row for row in rows if line in (None, row.line)),
        outline=_outline(new, rows, python_lines(session.listings.get(codes.before.file, ""))),
    )


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


def _rows(
    codes: Rewritten, edits: Iterable[Edit], old: Iterable[BytecodePiece], new: Iterable[BytecodePiece]
) -> Iterator[DiffRow]:
    """Yield the diff line by line."""
    before, after = codes.before.instructions, codes.after.instructions
    old_piece = {at: piece for piece in old for at in range(piece.first, piece.last + 1)}
    new_piece = {at: piece for piece in new for at in range(piece.first, piece.last + 1)}
    for edit in edits:
        match edit:
            case KeptInstruction(was, now):
                yield DiffRow("same", was, now, new_piece.get(now), before[was].line, after[now])
            case Removed(was):
                yield DiffRow("removed", was, None, old_piece.get(was), before[was].line, before[was])
            case Added(now, made):
                yield DiffRow("added", None, now, new_piece.get(now), made.line, made)


# Chosen: beyond three lines, first and last say more than all.
_MOST_LINES = 3


def _outline(found: Sequence[BytecodePiece], rows: Sequence[DiffRow], source: Sequence[str]) -> tuple[str, ...]:
    steps: list[str] = []
    changes = sum(piece.kind is PieceKind.CHANGE and piece.text.startswith("replays") for piece in found)
    for piece in found:
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
            # Where more happens than the graph, that the function returns is no news.
            case PieceKind.RETURN if piece.text.startswith("returns") and not changes and len(steps) < 2:
                steps.append("returns")
    return tuple(_with_own(dict.fromkeys(steps), _own_lines(rows, source)))


_OWN = "own"
_LOADS = ("LOAD_", "PUSH_NULL", "PRECALL", "KW_NAMES", "COPY", "SWAP", "NOP")


def _goes_on(piece: BytecodePiece) -> str:
    where = piece.text.partition(" in a resume function")[0].rstrip(",")
    return f"{where} ({', '.join(piece.link) or 'not compiled'})"


def _own_lines(rows: Sequence[DiffRow], source: Sequence[str]) -> list[str]:
    """Describe the user's lines that remain."""
    lines = sorted({row.line for row in rows if _is(PieceKind.OWN, row) and row.line is not None})
    if len(lines) > _MOST_LINES:
        return [f"lines {lines[0]} to {lines[-1]} run eagerly"]
    # Loads are no work that Dynamo traced, because torch repeats them.
    works = [row for row in rows if not row.shown.opname.startswith(_LOADS)]
    traced = {row.line for row in works if _is(PieceKind.TRACED, row)}
    named = [(f"part of line {line}" if line in traced else f"line {line}", line) for line in lines]
    return [
        f"{name} runs eagerly{f': {source[line - 1].strip()}' if line <= len(source) else ''}" for name, line in named
    ]


def _is(kind: PieceKind, row: DiffRow) -> bool:
    return row.piece is not None and row.piece.kind is kind


def _with_own(steps: dict[str, None], own: list[str]) -> Iterator[str]:
    for text in steps:
        if text == _OWN:
            yield from own
        else:
            yield text


class BytecodeFilter(Struct, frozen=True):
    """Which compilations are asked for; None: all."""

    function: str | None = None
    graph: str | None = None
    line: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether nothing is selected."""
        return (self.function, self.graph, self.line) == (None, None, None)


class BytecodeDocument(RunDocument, frozen=True, kw_only=True):
    """The functions that Dynamo rewrote, and the code of some of their compilations."""

    JSON: ClassVar[str] = "schema verdict functions compilations problems=run.problems"
    functions: tuple[FunctionCode, ...]
    compilations: tuple[Explained | SourceRefused | SourceProven, ...]
    choice: BytecodeFilter
    chosen: int
    """How many compilations are selected; `compilations` may lack those that no screen shows."""
    outlines: Mapping[str, tuple[str, ...]]
    """The steps of the new code, by compilation, for the first one of each function."""
    was_compiled: bool
    """Whether there are compilations, with or without bytecode."""
    listings: Mapping[str, str]
    """Source text, keyed by file."""


_ALL = BytecodeFilter()
# Chosen: the summary leaves half of a screen to the first diff.
MOST_FUNCTIONS = 12
# Chosen: some pages of Python.
MOST_COMPILATIONS = 6


def bytecode_document(
    session: Session, choice: BytecodeFilter = _ALL, *, source: bool = False, whole: bool = True
) -> BytecodeDocument:
    """Answer for the selected compilations.

    Args:
        choice: what is selected.
        source: whether to write the new code as Python where it is proven equal.
        whole: whether to explain also what a screen without `--all` leaves out.

    Raises:
        SelectionError: the run has bytecode, but no such function, compilation or line.
    """
    functions = function_codes(session)
    chosen = _chosen(session, functions, choice)
    is_summary = choice.is_open and not source
    most = None if whole or not (source or is_summary) else MOST_COMPILATIONS
    shown = [explained(session, each, choice.line) for each in chosen[:most]]
    outlines = {each.compiled.compilation.id: each.outline for each in shown}
    for function in functions[: None if whole else MOST_FUNCTIONS]:
        for each in (function, *function.resumes) if is_summary else ():
            first = each.compiled[0]
            if first.compilation.id not in outlines:
                outlines[first.compilation.id] = explained(session, first).outline
    return BytecodeDocument(
        run=session.run,
        functions=functions,
        compilations=tuple(map(_with_source, shown) if source else shown),
        choice=choice,
        chosen=len(chosen),
        outlines=outlines,
        was_compiled=bool(session.compilations),
        listings=session.listings,
    )


def _with_source(each: Explained) -> SourceRefused | SourceProven:
    found = reconstruct(each.codes.after)
    if isinstance(found, NotReconstructed):
        return SourceRefused(each, found)
    return SourceProven(each, found)


def _chosen(
    session: Session, functions: Sequence[FunctionCode], choice: BytecodeFilter
) -> tuple[CompiledFunction, ...]:
    if not functions and choice.is_open:
        return ()
    function, graph = choice.function, choice.graph
    matching = [each for each in functions if function is None or function in (each.name, each.name.rpartition(".")[2])]
    if function is not None and not matching:
        _refuse("function", function, _suggested(function, [each.name for each in functions]))
    found = tuple(each for one in matching for each in one.all if graph in (None, each.compilation.id))
    if graph is not None and not found:
        _refuse("graph", graph, _suggested(graph, [each.compilation.id for one in matching for each in one.all]))
    if choice.line is None:
        return found
    return _at(session, found, choice.line)


def _at(session: Session, found: Iterable[CompiledFunction], line: int) -> tuple[CompiledFunction, ...]:
    """Return the compilations with instructions of a source line."""
    lines = {each: {one.line for one in session.codes[each.compilation.id].before.instructions} for each in found}
    known = {each for some in lines.values() for each in some if each is not None}
    if line not in known:
        near = sorted(known, key=lambda each: abs(each - line))[:8]
        _refuse("line", str(line), f"the nearest are: {', '.join(map(str, sorted(near)))}")
    return tuple(each for each in lines if line in lines[each])


def _suggested(name: str, known: Sequence[str]) -> str:
    # `forward` is accepted for `Net.forward`, so it is suggested as well.
    plain = {name.rpartition(".")[2]: name for name in known}
    return did_you_mean(name, [*known, *plain], f"there are: {', '.join(known[:8])}")


def _refuse(option: str, name: str, todo: str) -> NoReturn:
    raise SelectionError(option, f"{name}: this run has no bytecode for it", todo)
