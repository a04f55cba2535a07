"""Find the resume function after a break; the name of torch's global has only the offset of the break.

Torch builds a resume function from the old instructions with a prologue before them (2.11 and 2.13,
_dynamo/resume_execution.py), so it continues at the same distance from the end as the function that broke.

Before torch traces a code object, it expands some instructions into two or three simpler ones. Resume functions consist
of these expanded instructions, and the offsets in their names count them, without EXTENDED_ARG. Source:
`_cached_cleaned_instructions` (torch 2.11 and 2.13, _dynamo/bytecode_transformation.py).
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise

from msgspec import Struct

from ctrace.inspector.facts.bytecode_facts import Code, Instruction, Rewritten
from ctrace.inspector.features.bytecode.opcodes import goes_on, index_at, version
from ctrace.inspector.features.bytecode.stackforms import CallResult, Form, FunctionForm, VariableForm
from ctrace.inspector.source.stacks import resumed

_FUSED = {
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
}
_SLICES = {"BINARY_SLICE": "BINARY_SUBSCR", "STORE_SLICE": "STORE_SUBSCR"}
_PLAIN = 2
"""Size of an instruction without caches, in bytes."""
_SUBSCRIPT = 4
"""Size of BINARY_SUBSCR and STORE_SUBSCR with their cache, in bytes (Python 3.12 and 3.13)."""
_SUPER_IS_WRITTEN_OUT = (3, 11)
"""The last Python on which torch expands `super()` to two arguments."""


class ExpandedInstruction(Struct, frozen=True):
    """An expanded instruction; its argument is known only as text."""

    index: int
    """Index of the original instruction."""
    offset: int
    """Offset in the expanded code, in bytes."""
    opname: str
    text: str
    line: int | None
    jumps: bool


def respelled(code: Code) -> tuple[ExpandedInstruction, ...]:
    """Expand the instructions of a code object as torch does."""
    found = []
    offset = 0
    for index, size in enumerate(_sizes(code)):
        each = code.instructions[index]
        for opname, text, own in _spelled(code, index, size):
            found.append(ExpandedInstruction(index, offset, opname, text, each.line, each.target is not None))
            offset += own
    return tuple(found)


def _sizes(code: Code) -> Iterator[int]:
    """Return the size of each instruction with its caches, without EXTENDED_ARG."""
    # Caches have no entry in the log, so the size is the distance to the next instruction.
    for each, after in pairwise(code.instructions):
        yield after.offset - each.offset - _PLAIN * _extended(after)
    yield _PLAIN


def _extended(each: Instruction) -> int:
    """Return the number of EXTENDED_ARG before an instruction: one for each byte of its argument but the last."""
    return max(((each.arg or 0).bit_length() + 7) // 8 - 1, 0)


def _spelled(code: Code, index: int, size: int) -> Iterator[tuple[str, str, int]]:
    """Yield opcode, text and size of each part."""
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
            load = "LOAD_FAST"
            if code.variables[0] in (*code.cells, *code.free):  # a function inside uses it, too
                load = "LOAD_DEREF"
            yield load, code.variables[0], _PLAIN


def _is_bare_super(code: Code, index: int) -> bool:
    """Whether an instruction loads `super` for a call without arguments."""
    each, after = code.instructions[index], code.instructions[index + 1 : index + 2]
    loads = each.opname == "LOAD_GLOBAL" and each.text.removeprefix("NULL + ") == "super"
    called = bool(after) and after[0].opname == "PRECALL" and not after[0].arg
    return loads and called and bool(code.variables) and version(code) <= _SUPER_IS_WRITTEN_OUT


CALLED = "__resume_at_"
"""Prefix of torch's globals for resume functions (2.11 and 2.13, _dynamo/symbolic_convert.py, `create_resume`)."""
_FIRST_ARGUMENTS = 2
"""Resume functions for breaks in inlined functions; their first arguments are torch's lists."""
BOXED = "__resume_frame_values"
"""The list that passes values to some resume functions instead of arguments (2.13, _dynamo/resume_execution.py)."""
_MOVES = frozenset(("POP_TOP", "NOP"))


class Resume(Struct, frozen=True):
    """Where a function continues after a break."""

    ids: tuple[str, ...] = ()
    """Compilations of the resume function, which may be none."""
    line: int | None = None
    """The first line that it runs, or None if not known."""
    arguments: tuple[str, ...] = ()
    """Its parameters, named as in the function that broke."""


def resume_of(what: str | Code, code: Code, codes: Mapping[str, Rewritten]) -> Resume:
    """Return the resume function that the new code calls or creates.

    The code calls it by a global such as `__resume_at_408_3`. Torch 2.11 creates a resume function that has a closure
    from its code object.
    """
    if isinstance(what, Code):
        made = tuple(compile_id for compile_id, each in codes.items() if each.before == what)
        start = resume_point(what)
        return Resume(made, None if start is None else _line(what, start), _arguments(what))
    part = _resumed_part(what, code)
    if part is None:
        return Resume()
    ids = [compile_id for compile_id, each in codes.items() if _goes_on(code, part, each.before)]
    # Two matching frames differ in their parameters; which one is called is then not known.
    frames = {compile_id.partition("/")[0] for compile_id in ids}
    line = _line(code, part.index)
    if len(frames) != 1:
        return Resume(tuple(ids), line)
    return Resume(tuple(ids), line, _arguments(codes[ids[0]].before))


def _goes_on(code: Code, at: ExpandedInstruction, resume: Code) -> bool:
    name, line = resumed(resume.name)
    if line is None or (name, resume.file) != (resumed(code.name)[0], code.file):
        return False
    start = resume_point(resume)
    if start is None:
        return False
    rest = [part for part in respelled(code) if part.offset >= at.offset]
    other = [part for part in respelled(resume) if part.index >= start]
    return len(rest) == len(other) and all(map(_is_alike, rest, other))


def _is_alike(old: ExpandedInstruction, new: ExpandedInstruction) -> bool:
    """Compare everything but numbers; torch assigns lines to instructions without one."""
    # Targets of jumps are offsets, which the prologue moves.
    return old.opname == new.opname and (old.jumps or old.text == new.text) and old.line in (None, new.line)


def resume_point(code: Code) -> int | None:
    """Return the instruction that a resume function's prologue jumps to, or None for another function."""
    if resumed(code.name)[1] is None:
        return None
    # The prologue ends with this jump to the old instructions.
    for instruction in code.instructions:
        if instruction.opname in ("JUMP_FORWARD", "JUMP_ABSOLUTE") and instruction.target is not None:
            return index_at(code, instruction.target)
    return None


def _line(code: Code, at: int) -> int | None:
    """Skip instructions that only drop the result of the statement that broke."""
    while at + 1 < len(code.instructions) and code.instructions[at].opname in _MOVES and goes_on(code.instructions[at]):
        at += 1
    return code.instructions[at].line


def _arguments(code: Code) -> tuple[str, ...]:
    names = code.variables[_FIRST_ARGUMENTS : code.arguments]
    if BOXED in names:
        return ()
    return names


def old_begin(code: Code) -> int:
    """Return where the old instructions begin in a resume function, after torch's prologue."""
    # The prologue has a RESUME, and the old instructions keep theirs.
    starts = [at for at, each in enumerate(code.instructions) if each.opname == "RESUME"]
    begin = 0
    if len(starts) > 1:
        begin = starts[1]
    # CPython makes cells in front of the RESUME.
    while begin and code.instructions[begin - 1].opname in ("MAKE_CELL", "COPY_FREE_VARS"):
        begin -= 1
    return begin


def resume_index(name: str, code: Code) -> int | None:
    """Return the old instruction that a resume function continues with, or None if not known."""
    part = _resumed_part(name, code)
    if part is None:
        return None
    return part.index


def _resumed_part(name: str, code: Code) -> ExpandedInstruction | None:
    offset = name.removeprefix(CALLED).partition("_")[0]
    return next((part for part in respelled(code) if str(part.offset) == offset), None)


def called_resume(form: Form) -> str | Code | None:
    """Return the global of a resume function: the function itself or its factory with a closure; in 2.11, its code."""
    if isinstance(form, FunctionForm):
        if resume_point(form.code) is not None:
            return form.code
        return None
    if isinstance(form, CallResult):
        made = form.function
    else:
        made = form
    if isinstance(made, VariableForm) and made.scope == "global" and made.name.startswith(CALLED):
        return made.name
    return None
