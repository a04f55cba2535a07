"""Explain comprehensions that Dynamo cannot trace: torch 2.13 moves each one to a new function and calls it.

Source: `_build_comprehension_fn` (torch 2.13, _dynamo/comprehension_graph_break.py; from Python 3.12 on, where a
comprehension is part of its enclosing function).
"""

import re

from ctrace.inspector.facts.bytecode_facts import Code, Instruction
from ctrace.inspector.features.bytecode.rewrites.bytecode_pieces import PieceKind, PieceRole
from ctrace.inspector.features.bytecode.rewrites.bytecode_scene import BytecodeScene
from ctrace.inspector.features.bytecode.rewrites.opcodes import index_at
from ctrace.inspector.features.bytecode.rewrites.stackforms import ConstantForm, VariableForm

_CALLED = re.compile(r"__comprehension_.*_at_(\d{1,9})_\d+")
_ADDS = frozenset(("LIST_APPEND", "SET_ADD", "MAP_ADD"))
_POPS_NULL = ConstantForm("<function>")
"""A function that torch stores as a constant; torch calls it to take a NULL off the stack (`pop_null`)."""


def claim_comprehensions(scene: BytecodeScene) -> None:
    """Claim the calls of comprehensions and their arguments."""
    for step, function, arguments in list(scene.free_calls()):
        line = _line(function.form.name) if isinstance(function.form, VariableForm) else None
        if line is not None:
            what = f"the comprehension of line {line}"
            text = f"runs {what} eagerly, in a function that torch created for it"
            scene.whole(step, PieceRole(PieceKind.COMPREHENSION, text, early=f"for {what}"))
        elif function.form == _POPS_NULL and not arguments and (drop := scene.dropped(step)) is not None:
            scene.whole(step, scene.frame)
            scene.claims.claim(drop.index, scene.frame)


def in_comprehensions(before: Code, after: Code) -> dict[int, PieceRole]:
    """Return the old instructions that torch moved to functions for comprehensions."""
    found: dict[int, PieceRole] = {}
    for line in filter(None, map(_line, after.names)):
        role = PieceRole(
            PieceKind.LATER, f"run eagerly, in the function that torch created for the comprehension of line {line}"
        )
        for at, each in enumerate(before.instructions):
            inside = range(at, index_at(before, each.target) + 1) if _begins(each, line) and each.target else range(0)
            if any(before.instructions[other].opname in _ADDS for other in inside):
                found.update(dict.fromkeys(inside, role))
    return found


def _line(name: str) -> int | None:
    match = _CALLED.fullmatch(name)
    return int(match[1]) if match else None


def _begins(each: Instruction, line: int) -> bool:
    return each.opname == "FOR_ITER" and each.line == line
