"""Torch's own spelling of a code: before it follows a code, it writes some instructions as two or three plainer ones.

Its resume functions are made of that spelling, and its names for them count offsets in it, without EXTENDED_ARG.
Source: `_cached_cleaned_instructions` (torch 2.11 and 2.13, _dynamo/bytecode_transformation.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from ctrace.inspector.bytecode.rewrites.opcodes import version
from ctrace.inspector.model.bytecode import Code, Instruction

_FUSED = {
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
}
_SLICES = {"BINARY_SLICE": "BINARY_SUBSCR", "STORE_SLICE": "STORE_SUBSCR"}
_PLAIN = 2
"""Bytes of an instruction without caches."""
_SUBSCRIPT = 4
"""Bytes of BINARY_SUBSCR and STORE_SUBSCR with their cache (Python 3.12 and 3.13)."""
_SUPER_IS_WRITTEN_OUT = (3, 11)
"""The last Python on which torch gives `super()` its two arguments."""


@dataclass(frozen=True, slots=True)
class Part:
    """An instruction as torch spells it; its argument is known by its text only."""

    index: int
    """Of the code's instruction that it is, or is a part of."""
    offset: int
    """In torch's spelling, in bytes."""
    opname: str
    text: str
    line: int | None
    jumps: bool


def respelled(code: Code) -> tuple[Part, ...]:
    """Write a code as torch does."""
    found = []
    offset = 0
    for index, size in enumerate(_sizes(code)):
        each = code.instructions[index]
        for opname, text, own in _spelled(code, index, size):
            found.append(Part(index, offset, opname, text, each.line, each.target is not None))
            offset += own
    return tuple(found)


def _sizes(code: Code) -> Iterator[int]:
    """Give the bytes of each instruction with its caches, without EXTENDED_ARG."""
    for each, after in pairwise(code.instructions):
        yield after.offset - each.offset - _PLAIN * _extended(after)
    yield _PLAIN


def _extended(each: Instruction) -> int:
    """Count the EXTENDED_ARG before an instruction: one for each byte of its argument but the last."""
    return max(((each.arg or 0).bit_length() + 7) // 8 - 1, 0)


def _spelled(code: Code, index: int, size: int) -> Iterator[tuple[str, str, int]]:
    """Give opcode, text and bytes of each part."""
    each = code.instructions[index]
    if each.opname in _FUSED:
        for opname, name in zip(_FUSED[each.opname], each.text.split(", "), strict=False):
            yield opname, name, _PLAIN
    elif each.opname in _SLICES:
        yield "BUILD_SLICE", "", _PLAIN
        yield _SLICES[each.opname], "", _SUBSCRIPT
    elif each.opname.endswith("_NONE"):
        yield "LOAD_CONST", "None", _PLAIN
        yield "IS_OP", "", _PLAIN
        yield each.opname.rpartition("_IF_")[0] + "_IF_TRUE", "", size
    else:
        yield each.opname, each.text, size
        if _is_bare_super(code, index):
            yield "LOAD_DEREF", "__class__", _PLAIN
            shared = code.variables[0] in (*code.cells, *code.free)
            yield "LOAD_DEREF" if shared else "LOAD_FAST", code.variables[0], _PLAIN


def _is_bare_super(code: Code, index: int) -> bool:
    """Whether an instruction loads `super` for a call without arguments."""
    each, after = code.instructions[index], code.instructions[index + 1 : index + 2]
    loads = each.opname == "LOAD_GLOBAL" and each.text.removeprefix("NULL + ") == "super"
    called = bool(after) and after[0].opname == "PRECALL" and not after[0].arg
    return loads and called and bool(code.variables) and version(code) <= _SUPER_IS_WRITTEN_OUT
