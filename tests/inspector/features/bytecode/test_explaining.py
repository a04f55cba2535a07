"""The purpose of inserted bytecode, in a recorded run and in other code objects."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.bytecode_facts import Code, Constant
from ctrace.inspector.features.bytecode.bytecode_scene import PieceKind
from ctrace.inspector.features.bytecode.bytecode_view import Explained, explained, function_codes
from ctrace.inspector.features.bytecode.stackforms import ListOf, written
from ctrace.inspector.features.bytecode.stackwalk import WalkStep, walked
from tests.inspector.features.bytecode.test_alignment import code, instruction
from tests.support.helpers import recorded

SESSION = recorded("rewritten")


def _explained(compile_id: str) -> Explained:
    compiled = [each for function in function_codes(SESSION) for each in function.all]
    return explained(SESSION, next(each for each in compiled if each.compilation.id == compile_id))


def _texts(compile_id: str, kind: PieceKind) -> list[str]:
    return [piece.text for piece in _explained(compile_id).pieces if piece.kind is kind]


def test_inputs_come_in_order_and_by_the_users_names() -> None:
    assert _texts("0/0", PieceKind.INPUT) == [
        "input 0: self.count",
        "input 1: self.weight",
        "input 2: x (an argument)",
    ]
    assert _texts("4/0", PieceKind.INPUT) == ["input 0: x (an argument)", "input 1: factor (of the enclosing function)"]


def test_the_call_of_the_graph_leads_to_it() -> None:
    called = [piece for piece in _explained("0/0").pieces if piece.kind is PieceKind.GRAPH]
    assert [piece.text for piece in called] == [
        "loads the function of graph 0/0",
        "calls graph 0/0 with 3 inputs",
        "keeps what graph 0/0 returned",
    ]
    assert {piece.link for piece in called} == {("0/0",)}


def test_side_effects_are_written_as_statements() -> None:
    assert [text for text in _texts("0/0", PieceKind.CHANGE) if text.startswith("replays")] == [
        "replays seen.clear()",
        "replays seen.update({'calls': 1})",
        "replays self.count = output 1, by self._buffers.update",
    ]


def test_what_stays_and_what_it_needs() -> None:
    assert _texts("0/0", PieceKind.OWN) == ["line 18 runs unchanged"]
    assert set(_texts("0/0", PieceKind.OPERAND)) == {"what line 18 needs: print('mean', sep=': ')"}


def test_what_the_resume_function_gets() -> None:
    assert _texts("0/0", PieceKind.OUTPUT) == ["for the resume function: y = output 0"]
    assert _texts("2/0", PieceKind.PASS) == [
        "for the resume function: torch.set_grad_enabled",
        "for the resume function: y",
    ]


def test_where_it_goes_on() -> None:
    (first, last) = [piece for piece in _explained("0/0").pieces if piece.kind is PieceKind.RESUME]
    assert (first.text, first.link) == ("loads the resume function 1/0", ("1/0",))
    assert last.text.startswith("goes on in forward at line 19, in a resume function, compiled as 1/0")


def test_a_branch_has_two_ends_and_one_was_never_reached() -> None:
    assert _texts("1/0", PieceKind.BRANCH)[-1].startswith("branches on output 0 of the graph, as line 19 does")
    ends = [piece for piece in _explained("1/0").pieces if piece.text.startswith("goes on")]
    assert [piece.link for piece in ends] == [(), ("2/0",)]
    assert "line 20, in a resume function, which this run did not compile" in ends[0].text


def test_a_context_is_entered_and_left_around_what_stays() -> None:
    context = "torch.set_grad_enabled(False)"
    texts = list(dict.fromkeys(_texts("2/0", PieceKind.CONTEXT)))
    assert texts == [
        f"recreates {context}",
        f"enters {context}, around the remaining code",
        f"leaves {context}, around the remaining code",
        "leaves it too if the remaining code raises",
    ]


@pytest.mark.parametrize("compile_id", list(SESSION.codes))
def test_every_instruction_is_in_one_piece_and_none_is_a_riddle(compile_id: str) -> None:
    each = _explained(compile_id)
    places = [at for piece in each.pieces for at in range(piece.first, piece.last + 1)]
    assert places == list(range(len(each.codes.after.instructions)))
    assert PieceKind.OTHER not in {piece.kind for piece in each.pieces}


def test_the_old_code_of_a_resume_function() -> None:
    kinds = [piece.kind for piece in _explained("3/0").old]
    assert kinds[:2] == [PieceKind.PROLOGUE, PieceKind.DEAD]
    assert PieceKind.TRACED in kinds


def test_what_is_not_understood_is_not_guessed() -> None:
    codes = SESSION.codes["0/0"]
    strange = instruction(2, "SOMETHING_NEW", None, "", 15)
    after = replace(codes.after, instructions=(codes.after.instructions[0], strange))
    session = replace(SESSION, codes={**SESSION.codes, "0/0": replace(codes, after=after)})
    (compiled,) = [
        each for function in function_codes(session) for each in function.all if each.compilation.id == "0/0"
    ]
    assert [piece.text for piece in explained(session, compiled).pieces][-1] == "other inserted code"


def _code(*instructions: tuple[str, int | None, str], python: str, constants: tuple[Constant, ...] = ()) -> Code:
    made = [instruction(2 * at, name, arg, text, 1) for at, (name, arg, text) in enumerate(instructions)]
    return replace(code(made, constants=constants), python=python)


def _last(steps: dict[int, WalkStep]) -> WalkStep:
    return steps[max(steps)]


def test_python_3_12() -> None:
    steps = walked(
        _code(
            ("RESUME", 0, ""),
            ("LOAD_GLOBAL", 1, "NULL + print"),
            ("LOAD_FAST", 0, "x"),
            ("LOAD_ATTR", 1, "NULL|self + mean"),
            ("CALL", 0, ""),
            ("LOAD_CONST", 0, "1"),
            ("KW_NAMES", 1, "('end',)"),
            ("CALL", 2, ""),
            ("POP_TOP", None, ""),
            ("RETURN_CONST", 0, "None"),
            python="3.12",
            constants=(Constant("int", "1"), Constant("tuple", "('end',)")),
        )
    )
    assert len(steps) == 10
    assert written(steps[7].put[0].form, {}) == "print(x.mean(), end=1)"


def test_python_3_13() -> None:
    steps = walked(
        _code(
            ("LOAD_GLOBAL", 1, "print + NULL"),
            ("LOAD_FAST_LOAD_FAST", 1, "x, y"),
            ("LOAD_CONST", 0, "('end',)"),
            ("CALL_KW", 2, ""),
            ("POP_TOP", None, ""),
            ("LOAD_FAST", 0, "x"),
            ("LOAD_ATTR", 1, "mean + NULL|self"),
            ("CALL", 0, ""),
            ("RETURN_VALUE", None, ""),
            python="3.13",
            constants=(Constant("tuple", "('end',)"),),
        )
    )
    assert written(steps[3].put[0].form, {}) == "print(x, end=y)"
    assert written(_last(steps).taken[0].form, {}) == "x.mean()"


def test_lists_are_followed_through_slices() -> None:
    steps = walked(
        _code(
            ("LOAD_FAST", 0, "x"),
            ("LOAD_FAST", 1, "y"),
            ("BUILD_LIST", 2, ""),
            ("COPY", 1, ""),
            ("LOAD_CONST", 0, "0"),
            ("LOAD_CONST", 1, "1"),
            ("BINARY_SLICE", None, ""),
            ("RETURN_VALUE", None, ""),
            python="3.12",
            constants=(Constant("int", "0"), Constant("int", "1")),
        )
    )
    last = _last(steps)
    assert isinstance(last.taken[0].form, ListOf)
    assert written(last.taken[0].form, last.lists) == "[x]"


def test_a_stack_that_runs_dry_ends_the_walk() -> None:
    assert list(walked(_code(("RESUME", 0, ""), ("POP_TOP", None, ""), python="3.11"))) == [0]


def test_torch_2_11_makes_a_resume_function_with_a_closure_of_its_code() -> None:
    codes = SESSION.codes["4/0"]
    resume = SESSION.codes["5/0"].before
    after = replace(
        codes.after,
        constants=(Constant("code", "<code resume>", resume), Constant("tuple", "()")),
        instructions=(
            instruction(0, "COPY_FREE_VARS", 1, "", 30),
            instruction(2, "RESUME", 0, "", 30),
            instruction(4, "PUSH_NULL", None, "", 30),
            instruction(6, "LOAD_CLOSURE", 0, "factor", 30),
            instruction(8, "BUILD_TUPLE", 1, "", 30),
            instruction(10, "LOAD_CONST", 0, "<code resume>", 30),
            instruction(12, "MAKE_FUNCTION", 8, "closure", 30),
            instruction(14, "LOAD_CONST", 1, "()", 30),
            instruction(16, "CALL_FUNCTION_EX", 0, "", 30),
            instruction(18, "RETURN_VALUE", None, "", 30),
        ),
    )
    session = replace(SESSION, codes={**SESSION.codes, "4/0": replace(codes, after=after)})
    compiled = next(each for one in function_codes(session) for each in one.all if each.compilation.id == "4/0")
    assert explained(session, compiled).pieces[-1].link == ("5/0",)
