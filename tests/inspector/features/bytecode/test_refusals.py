"""Damaged and unsupported bytecode is refused with the reason and its offset."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.bytecode_facts import Code, Instruction
from ctrace.inspector.features.bytecode.reconstruct import NotReconstructed, reconstruct
from ctrace.inspector.source.disassembly import disassembled

Damage = Callable[[Instruction], Instruction | None]


def plain(a: Any, b: Any) -> Any:
    return a.x(b, key=b.y)


def branching(a: Any) -> Any:
    if a.x:
        return a.y
    return a.z


def looping(a: Any) -> Any:
    for each in a:
        each.x()
    return a


def why(function: Callable[..., Any], damage: Damage, **tables: Any) -> str:
    """Return why a function's code with damaged instructions has no source."""
    code = disassembled(function.__code__)
    kept = tuple(each for each in map(damage, code.instructions) if each is not None)
    found = reconstruct(replace(code, instructions=kept, **tables))
    assert isinstance(found, NotReconstructed)
    return found.why


def at(function: Callable[..., Any], opname: str) -> int:
    """Return the offset of the last instruction of a kind."""
    return [each.offset for each in disassembled(function.__code__).instructions if each.opname.startswith(opname)][-1]


def unchanged(each: Instruction) -> Instruction:
    return each


def without(opname: str) -> Damage:
    return lambda each: None if each.opname.startswith(opname) else each


def renamed(old: str, new: str) -> Damage:
    return lambda each: replace(each, opname=new) if each.opname.startswith(old) else each


def test_an_instruction_that_is_not_known() -> None:
    offset = at(plain, "RETURN_VALUE")
    assert why(plain, renamed("RETURN_VALUE", "FLY_AWAY")) == (
        f"The instruction FLY_AWAY at offset {offset} is not supported yet."
    )


def test_a_code_that_does_not_end() -> None:
    last = disassembled(plain.__code__).instructions[-2].offset
    assert why(plain, without("RETURN_VALUE")) == f"The code ends at offset {last} without leaving the function."


def test_a_jump_to_nowhere() -> None:
    def astray(each: Instruction) -> Instruction:
        return each if each.target is None else replace(each, target=9998)

    assert why(branching, astray) == "A jump leads to offset 9998, where no instruction starts."


def test_tables_that_are_too_short() -> None:
    assert (
        why(plain, unchanged, names=())
        == "The bytecode refers to a name, constant or variable that its tables do not contain."
    )


def test_a_loop_without_a_way_back() -> None:
    head = at(looping, "FOR_ITER")
    assert why(looping, renamed("JUMP_BACKWARD", "NOP")) in (
        f"The loop at offset {head} has no jump back to its start.",
        "The stack is empty where an instruction pops a value.",  # from Python 3.12 on, by the END_FOR after the loop
    )


def test_a_stack_that_is_empty() -> None:
    assert why(plain, without("LOAD_FAST")) == "The stack is empty where an instruction pops a value."


def test_what_is_too_deeply_nested() -> None:
    expression = "a" + ".x()" * 600
    scope: dict[str, Any] = {}
    exec(f"def deep(a):\n    return {expression}\n", scope)  # our own text
    found = reconstruct(disassembled(scope["deep"].__code__))
    assert isinstance(found, NotReconstructed)
    assert found.why == "It is too deeply nested."


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="there, a call takes its keywords from the stack")
def test_keywords_that_are_no_names() -> None:
    def damaged(code: Code) -> Code:
        constants = tuple(replace(each, text="(1,)") if each.type == "tuple" else each for each in code.constants)
        return replace(code, constants=constants)

    found = reconstruct(damaged(disassembled(plain.__code__)))
    assert isinstance(found, NotReconstructed)
    assert found.why == f"The keywords at offset {at(plain, 'KW_NAMES')} are not strings."
