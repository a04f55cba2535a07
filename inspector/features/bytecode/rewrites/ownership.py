"""Find the paired instructions that torch copied from user code, without inserted ones that happen to be equal.

Torch copies an instruction that it cannot trace, and inserts new loads for its operands. So an instruction that only
produces a value belongs to the user if a user instruction consumes the value. An instruction that drops or returns a
value belongs to the user if a user instruction produced it.
"""

from collections.abc import Iterable, Mapping

from ctrace.inspector.facts.bytecode_facts import Code, Rewritten
from ctrace.inspector.features.bytecode.rewrites.alignment import Pair, align, settled
from ctrace.inspector.features.bytecode.rewrites.bytecode_scene import STARTS
from ctrace.inspector.features.bytecode.rewrites.resumes import old_begin, resume_point
from ctrace.inspector.features.bytecode.rewrites.stackforms import ListOf, Value
from ctrace.inspector.features.bytecode.rewrites.stackwalk import WalkStep

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
