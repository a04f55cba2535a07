"""Graphs that would be one without breaks."""

import textwrap
from types import CodeType

from msgspec.structs import replace

from ctrace.inspector.facts.bytecode_facts import Code, Rewritten
from ctrace.inspector.facts.findings import Break, BreakKind, Owner
from ctrace.inspector.facts.session import Graph, Session
from ctrace.inspector.findings.graphs.cuts import Cut, cuts
from ctrace.inspector.source.disassembly import disassembled

SOURCE = textwrap.dedent(
    """
    def forward(x):
        x = x + 1
        print("a"); print("b")
        return x * 2
    """
)


def code_of(source: str, name: str) -> Code:
    module = compile(source, "model.py", "exec")
    (code,) = (each for each in module.co_consts if isinstance(each, CodeType) and each.co_name == name)
    return disassembled(code)


def after_calls(code: Code) -> list[int]:
    """Return the offsets of the instructions that follow each call of print."""
    return [each.offset for each in code.instructions if each.opname == "POP_TOP"]


def calling(code: Code, *offsets: int) -> Code:
    """Return code like Dynamo's, which calls resume functions."""
    return replace(code, names=tuple(f"__resume_at_{offset}_{at}" for at, offset in enumerate(offsets)))


def resuming(code: Code, offset: int) -> Code:
    """Return the code of a resume function: a prefix that jumps, and the whole original."""
    first = code.instructions[0]
    prefix = (replace(first, offset=-4), replace(first, offset=-2, opname="JUMP_FORWARD", target=offset))
    return replace(code, name="torch_dynamo_resume_in_forward_at_4", instructions=(*prefix, *code.instructions))


def a_break(line: int, *compilations: str) -> Break:
    return Break(
        ("GB0059",), BreakKind.BREAK, Owner.USER, "model.py", line, "forward", "", "", "", 1, tuple(compilations)
    )


def session(codes: dict[str, Rewritten], graphs: list[str], *breaks: Break) -> Session:
    made = tuple(Graph(each, "forward", "model.py", 2, 1) for each in graphs)
    return Session(graphs=made, breaks=breaks, codes=codes)


FORWARD = code_of(SOURCE, "forward")
FIRST, SECOND = after_calls(FORWARD)
WHOLE = Rewritten(FORWARD, calling(FORWARD, FIRST))
BETWEEN = Rewritten(resuming(FORWARD, FIRST), calling(FORWARD, SECOND))
REST = Rewritten(resuming(FORWARD, SECOND), FORWARD)


def test_a_break_cuts_what_it_is_between():
    codes = {"0/0": Rewritten(FORWARD, calling(FORWARD, SECOND)), "1/0": REST}
    assert cuts(session(codes, ["0/0", "1/0"], a_break(4, "0/0"))) == (Cut("0/0", "1/0", (0,)),)


def test_two_breaks_in_one_line_are_told_apart_and_a_function_without_graph_is_passed_over():
    codes = {"0/0": WHOLE, "1/0": BETWEEN, "2/0": REST}
    at = (a_break(4, "0/0"), a_break(4, "1/0"))
    assert cuts(session(codes, ["0/0", "2/0"], *at)) == (Cut("0/0", "2/0", (0, 1)),)
    assert [(each.before, each.after) for each in cuts(session(codes, ["0/0", "1/0", "2/0"], *at))] == [
        ("0/0", "1/0"),
        ("1/0", "2/0"),
    ]


def test_an_if_on_a_tensor_has_two_ways_on():
    codes = {
        "0/0": Rewritten(FORWARD, calling(FORWARD, FIRST, SECOND)),
        "1/0": BETWEEN,
        "2/0": REST,
    }
    found = cuts(session(codes, ["0/0", "1/0", "2/0"], a_break(4, "0/0")))
    assert {(each.before, each.after) for each in found} == {("0/0", "1/0"), ("0/0", "2/0")}


def test_nothing_is_said_where_there_is_a_doubt():
    twice = {"0/0": Rewritten(FORWARD, calling(FORWARD, SECOND)), "1/0": REST, "2/0": REST}
    assert cuts(session(twice, ["0/0", "1/0", "2/0"], a_break(4, "0/0"))) == ()
    codes = {"0/0": Rewritten(FORWARD, calling(FORWARD, SECOND)), "1/0": REST}
    assert cuts(session(codes, ["0/0", "1/0"], a_break(4, "0/0"), a_break(9, "0/0"))) == ()
    assert cuts(session(codes, ["0/0", "1/0"])) == ()
    assert cuts(session({"0/1": codes["0/0"], "1/0": REST}, ["0/1", "1/0"], a_break(4, "0/1"))) == ()
    assert cuts(session({}, ["0/0", "1/0"], a_break(4, "0/0"))) == ()
