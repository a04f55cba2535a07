"""The stack effects of instructions match `dis.stack_effect` of the running Python."""

import dis
import sys
from itertools import product

import pytest

from ctrace.inspector.features.bytecode.opcodes import effect, reachable
from ctrace.inspector.source.disassembly import disassembled
from tests.inspector.features.bytecode.test_alignment import instruction

VERSION = sys.version_info[:2]
APART = {(3, 11): ("PRECALL", "CALL", "RETURN_GENERATOR"), (3, 12): ("RETURN_GENERATOR",)}
"""In 3.11, the effect of a call is shared between the first two; what the third puts is left out, in 3.12 too."""


def _opcodes() -> list[str]:
    known = effect
    return [name for name in dis.opmap if known(instruction(0, name, 2, ""), VERSION) is not None]


@pytest.mark.skipif(VERSION > (3, 13), reason="the table is of 3.11 to 3.13")
@pytest.mark.parametrize("name", [name for name in _opcodes() if name not in APART.get(VERSION, ())])
def test_effect(name: str) -> None:
    op = dis.opmap[name]
    if sys.version_info >= (3, 12):
        has_arg = op in dis.hasarg
    else:
        has_arg = op >= dis.HAVE_ARGUMENT
    for arg, jumps in product((2, 3), (False, True)):
        taken, put = effect(instruction(0, name, arg, ""), VERSION, jumps=jumps) or (0, 0)
        assert put - taken == dis.stack_effect(op, arg if has_arg else None, jump=jumps), (arg, jumps)


def test_most_are_known() -> None:
    strange = ("INSTRUMENTED", "ASYNC", "AWAIT", "YIELD", "SEND", "GENERATOR", "SETUP", "AITER", "ANEXT")
    plain = [name for name in dis.opmap if not any(word in name for word in strange)]
    assert len([name for name in plain if name not in _opcodes()]) <= 16


def test_an_unknown_one() -> None:
    assert effect(instruction(0, "SOMETHING_NEW", 1, ""), (3, 11)) is None


def test_what_follows_a_return_cannot_run() -> None:
    def looping(x: int) -> int:
        try:
            while x:
                x -= 1
        except ValueError:
            return 1
        return x

    code = disassembled(looping.__code__)
    assert reachable(code) == frozenset(range(len(code.instructions)))
    last = len(code.instructions) - 1
    assert reachable(code, last) == {last} or last in reachable(code, last)
