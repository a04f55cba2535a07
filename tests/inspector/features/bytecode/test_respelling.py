"""Torch's expanded form of a code object, whose offsets name its resume functions."""

from msgspec.structs import replace

from ctrace.inspector.facts.bytecode_facts import Instruction
from ctrace.inspector.features.bytecode.resume_functions import respelled
from tests.inspector.features.bytecode.test_alignment import code, instruction


def _spelled(python: str, *instructions: Instruction, **more: object) -> list[tuple[int, int, str, str]]:
    made = replace(code(list(instructions), **more), python=python)
    return [(part.index, part.offset, part.opname, part.text) for part in respelled(made)]


def test_fused_loads_and_stores_are_two() -> None:
    assert _spelled(
        "3.13",
        instruction(0, "LOAD_FAST_LOAD_FAST", 1, "x, y", 1),
        instruction(2, "STORE_FAST_LOAD_FAST", 16, "y, x", 1),
        instruction(4, "RETURN_VALUE", None, "", 1),
    ) == [
        (0, 0, "LOAD_FAST", "x"),
        (0, 2, "LOAD_FAST", "y"),
        (1, 4, "STORE_FAST", "y"),
        (1, 6, "LOAD_FAST", "x"),
        (2, 8, "RETURN_VALUE", ""),
    ]


def test_slices_are_made_and_taken_by_themselves() -> None:
    assert _spelled(
        "3.12", instruction(0, "BINARY_SLICE", None, "", 1), instruction(2, "RETURN_VALUE", None, "", 1)
    ) == [(0, 0, "BUILD_SLICE", ""), (0, 2, "BINARY_SUBSCR", ""), (1, 6, "RETURN_VALUE", "")]


def test_jumps_on_none_compare_first() -> None:
    assert _spelled(
        "3.11",
        instruction(0, "POP_JUMP_FORWARD_IF_NOT_NONE", 1, "to 4", 1, 4),
        instruction(2, "NOP", None, "", 1),
        instruction(4, "RETURN_VALUE", None, "", 1),
    ) == [
        (0, 0, "LOAD_CONST", "None"),
        (0, 2, "IS_OP", ""),
        (0, 4, "POP_JUMP_FORWARD_IF_TRUE", ""),
        (1, 6, "NOP", ""),
        (2, 8, "RETURN_VALUE", ""),
    ]


def test_bytes_before_a_large_argument_do_not_count() -> None:
    instructions = (
        instruction(0, "LOAD_FAST", 0, "x", 1),
        instruction(4, "LOAD_CONST", 300, "1", 1),
        instruction(10, "LOAD_CONST", 70_000, "1", 1),
        instruction(12, "RETURN_VALUE", None, "", 1),
    )
    assert [offset for _, offset, _, _ in _spelled("3.11", *instructions)] == [0, 2, 4, 6]


def test_super_gets_its_arguments_before_3_12() -> None:
    instructions = (
        instruction(0, "LOAD_GLOBAL", 1, "NULL + super", 1),
        instruction(12, "PRECALL", 0, "", 1),
        instruction(16, "CALL", 0, "", 1),
    )
    made = _spelled("3.11", *instructions, free=("__class__",))
    assert made[1:3] == [(0, 12, "LOAD_DEREF", "__class__"), (0, 14, "LOAD_FAST", "x")]
    assert [offset for _, offset, _, _ in made[3:]] == [16, 20]
    assert len(_spelled("3.12", *instructions, free=("__class__",))) == 3
