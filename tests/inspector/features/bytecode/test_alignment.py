"""Which instructions two code objects share, and the edits that turn one into the other."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ctrace.inspector.facts.bytecode_facts import Code, Constant, Instruction, Rewritten
from ctrace.inspector.features.bytecode.bytecode_view import (
    KeptInstruction,
    Pair,
    align,
    apply,
    diff,
    explained,
    function_codes,
    taken_over,
)
from ctrace.inspector.features.bytecode.opcodes import index_at
from ctrace.inspector.features.bytecode.stackwalk import walked
from ctrace.inspector.source.disassembly import disassembled
from tests.support.helpers import recorded
from tests.support.sampling import examples

CONSTANTS = (Constant("NoneType", "None"), Constant("int", "1"), Constant("Tensor", "<Tensor>"))
PLAIN = [
    ("LOAD_FAST", 0, "x"),
    ("LOAD_FAST", 1, "y"),
    ("LOAD_CONST", 0, "None"),
    ("LOAD_CONST", 1, "1"),
    ("LOAD_CONST", 2, "<Tensor>"),
    ("CALL", 1, ""),
    ("CALL", 2, ""),
    ("PRECALL", 1, ""),
    ("POP_TOP", None, ""),
    ("RETURN_VALUE", None, ""),
]


def instruction(
    offset: int, opname: str, arg: int | None, text: str, line: int | None = None, target: int | None = None
) -> Instruction:
    return Instruction(offset, opname, arg, text, line, target)


def code(instructions: list[Instruction], **more: Any) -> Code:
    known = {"arguments": 1, "positional_only": 0, "keyword_only": 0, "variables": ("x", "y"), **more}
    parts: dict[str, Any] = {"cells": (), "free": (), "names": (), "constants": CONSTANTS, **known}
    return Code("3.11", "f", "f", "m.py", 1, 3, instructions=tuple(instructions), handlers=(), **parts)


@st.composite
def codes(draw: st.DrawFn) -> Code:
    number = draw(st.integers(0, 14))
    made = []
    for at in range(number):
        line = draw(st.sampled_from([None, 1, 2, 3]))
        if draw(st.integers(0, 4)) == 0:
            target = 2 * draw(st.integers(0, number - 1))
            name = draw(st.sampled_from(["JUMP_FORWARD", "POP_JUMP_FORWARD_IF_FALSE"]))
            made.append(instruction(2 * at, name, target, f"to {target}", line, target))
        else:
            name, arg, text = draw(st.sampled_from(PLAIN))
            made.append(instruction(2 * at, name, arg, text, line))
    return code(made)


def assert_same(old: Code, new: Code, pairs: tuple[Pair, ...]) -> None:
    """Check each pair against the definition of equal instructions, independently of the algorithm."""
    where = dict(pairs)
    assert list(where) == sorted(where)
    assert list(where.values()) == sorted(where.values())
    for left, right in pairs:
        one, other = old.instructions[left], new.instructions[right]
        assert one.opname == other.opname
        if one.target is None:
            assert other.target is None
            assert one.text == other.text
            assert bool(one.text) or one.arg == other.arg
        else:
            assert other.target is not None
            assert where[index_at(old, one.target)] == index_at(new, other.target)


@settings(max_examples=examples(300))
@given(codes(), codes())
def test_edits_make_the_new_code_of_the_old_one(old: Code, new: Code) -> None:
    pairs = align(old, new)
    assert apply(diff(old, new, pairs), old.instructions) == new.instructions
    assert_same(old, new, pairs)


@given(codes())
def test_all_that_can_run_of_a_code_is_in_itself(old: Code) -> None:
    from ctrace.inspector.features.bytecode.opcodes import reachable

    unknown = {at for at, each in enumerate(old.instructions) if each.text == "<Tensor>"}
    assert {left for left, _ in align(old, old)} >= reachable(old) - unknown - _jumps(old)


def _jumps(old: Code) -> set[int]:
    return {at for at, each in enumerate(old.instructions) if each.target is not None}


def test_indices_offsets_and_distances_may_differ() -> None:
    def before(x: Any) -> Any:
        return x + 1 if x else -x

    old = disassembled(before.__code__)
    moved = tuple(
        replace(each, offset=each.offset + 10, target=None if each.target is None else each.target + 10)
        for each in old.instructions
    )
    new = replace(old, instructions=moved)
    pairs = align(old, new)
    assert pairs == tuple((at, at) for at in range(len(moved)))
    assert apply(diff(old, new, pairs), old.instructions) == moved


def test_a_jump_elsewhere_is_not_the_same() -> None:
    start, end = instruction(0, "JUMP_FORWARD", 1, "to 4", 1, 4), instruction(6, "RETURN_VALUE", None, "", 1)
    old = code([start, instruction(4, "POP_TOP", None, "", 1), end])
    new = code([start, instruction(4, "CALL", 1, "", 1), end])
    assert align(old, new) == ((2, 2),)


def test_another_line_is_another_instruction() -> None:
    load = instruction(0, "LOAD_FAST", 0, "x", 4)
    assert align(code([load]), code([replace(load, line=5)])) == ()


@pytest.mark.parametrize("name", ["a", "b"])
def test_constants_are_compared_by_value_not_by_index(name: str) -> None:
    load = instruction(0, "LOAD_CONST", 0, "7", 1)
    old = code([load], constants=(Constant("int", "7"),))
    values = {"a": Constant("int", "7"), "b": Constant("float", "7.0")}
    new = code([replace(load, arg=1)], constants=(Constant("int", "1"), values[name]))
    assert align(old, new) == (((0, 0),) if name == "a" else ())


@pytest.mark.thorough
def test_a_thousand_equal_instructions_take_no_time() -> None:
    load = [instruction(2 * at, "LOAD_FAST", 0, "x", 1) for at in range(1500)]
    other = [replace(each, arg=1, text="y") for each in load]
    assert len(align(code([*load, *other]), code([*other, *load]))) == 1500


def test_recorded_codes() -> None:
    session = recorded("rewritten")
    for compile_id, codes_ in session.codes.items():
        pairs = align(codes_.before, codes_.after)
        assert_same(codes_.before, codes_.after, pairs)
        assert apply(diff(codes_.before, codes_.after, pairs), codes_.before.instructions) == codes_.after.instructions
        assert pairs, compile_id
    for function in function_codes(session):
        for compiled in function.all:
            each = explained(session, compiled)
            assert apply(each.edits, each.codes.before.instructions) == each.codes.after.instructions
            kept = tuple((edit.before, edit.after) for edit in each.edits if isinstance(edit, KeptInstruction))
            assert_same(each.codes.before, each.codes.after, kept)


def test_what_is_alike_by_chance_does_not_keep_the_users_code_from_being_found() -> None:
    old = [
        ("DELETE_FAST", 0, "x"),
        ("LOAD_CONST", 1, "1"),
        ("LOAD_FAST", 1, "y"),
        ("BUILD_TUPLE", 2, ""),
        ("RETURN_VALUE", None, ""),
    ]
    new = [*old[1:3], ("BUILD_LIST", 2, ""), ("STORE_FAST", 2, "tmp"), old[0], ("LOAD_CONST", 0, "None"), old[4]]
    before, after = (
        code([instruction(2 * at, *each, 1) for at, each in enumerate(instructions)]) for instructions in (old, new)
    )
    assert align(before, after) == ((1, 0), (2, 1), (4, 6))
    assert taken_over(Rewritten(before, after), walked(after), frozenset()) == ((0, 4),)


def test_what_cannot_be_followed_stays_paired() -> None:
    code_ = code([instruction(0, "RESUME", 0, "", 1), instruction(2, "SOMETHING_NEW", 1, "", 1)])
    assert taken_over(Rewritten(code_, code_), {}, frozenset()) == ((0, 0), (1, 1))
