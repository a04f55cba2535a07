"""Find the paired instructions that torch copied from user code, without inserted ones that happen to be equal.

Torch copies an instruction that it cannot trace, and inserts new loads for its operands. So an instruction that only
produces a value belongs to the user if a user instruction consumes the value. An instruction that drops or returns a
value belongs to the user if a user instruction produced it.

Align a function's old and new code, and list the edits between them.

Two instructions are the same if they have the same name, the same resolved argument and the same source line, and if a
jump's target is the same instruction too. Offsets, indices and distances may differ.
"""

from bisect import bisect_left
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence

from msgspec import Struct

from ctrace.inspector.facts.bytecode_facts import Code, Instruction, Rewritten
from ctrace.inspector.features.bytecode.bytecode_scene import STARTS
from ctrace.inspector.features.bytecode.opcodes import index_at, reachable
from ctrace.inspector.features.bytecode.resume_functions import old_begin, resume_point
from ctrace.inspector.features.bytecode.stackforms import ListOf, Value
from ctrace.inspector.features.bytecode.stackwalk import WalkStep

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
    where: dict[Hashable, list[int]] = {}
    for index in range(len(new) - 1, -1, -1):
        where.setdefault(new[index], []).append(index)
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
        kept = [pair for pair in pairs if _is_own(pair[1], own, steps, users)]
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


def _is_own(index: int, own: set[int], steps: Mapping[int, WalkStep], users: Mapping[int, set[int]]) -> bool:
    step = steps.get(index)
    if step is None:
        return True
    name = step.instruction.opname
    if any(_is_list(value) for value in step.taken) and not own.issuperset(value.made for value in step.taken):
        return False
    if name in _TAKES:
        return step.taken[-1].made in own or step.taken[-1].made < 0
    if name in ("PRECALL", "KW_NAMES", "NOP", "SWAP", "PUSH_NULL"):
        return index + 1 in own
    if name.startswith(_MAKES):
        takers = users.get(index, set())
        return not takers or not own.isdisjoint(takers)
    return True


def _is_list(value: Value) -> bool:
    return isinstance(value.form, ListOf)
