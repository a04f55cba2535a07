"""Which piece each instruction gets: replayed side effects, two equal calls of one line, a comprehension, no graph."""

from msgspec.structs import replace

from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.bytecode.bytecode_scene import BytecodePiece, PieceKind
from ctrace.inspector.features.bytecode.bytecode_view import Explained, explained, function_codes
from tests.support.helpers import recorded

EFFECTS, COMPREHENSION = recorded("side_effects"), recorded("comprehension")
TABLE = "table.clear(), then table.update({key 0 of table: table[key 0 of table], 'b': output 0}), by dict's methods"
ROWS = "rows[:] = [rows[0], x], by list's methods"


def _explained(session: Session, compile_id: str) -> Explained:
    compiled = [each for function in function_codes(session) for each in function.all]
    return explained(session, next(each for each in compiled if each.compilation.id == compile_id))


def _pieces(each: Explained, *kinds: PieceKind) -> list[BytecodePiece]:
    return [piece for piece in each.pieces if piece.kind in kinds]


def _opcodes(each: Explained, piece: BytecodePiece) -> list[str]:
    return [made.opname for made in each.codes.after.instructions[piece.first : piece.last + 1]]


def _old(each: Explained, kind: PieceKind) -> list[tuple[str, list[int]]]:
    """Return the texts and lines of the old code's pieces."""
    lines = [made.line or 0 for made in each.codes.before.instructions]
    return [
        (piece.text, sorted(set(lines[piece.first : piece.last + 1]) - {0})) for piece in each.old if piece.kind is kind
    ]


def test_side_effects_are_prepared_in_the_order_of_the_script_and_replayed_the_last_first() -> None:
    changes = [piece.text for piece in _pieces(_explained(EFFECTS, "0/0"), PieceKind.CHANGE)]
    prepared = [TABLE, ROWS, "plain.update({})", "plain.clear()", "state.update({'n': 1})"]
    assert changes == [
        *(f"to replay: {each}" for each in prepared),
        "replays state.clear()",
        "replays state.update({'n': 1})",
        "replays plain.clear()",
        "replays plain.update({})",
        f"replays {ROWS}",
        f"replays {TABLE}",
    ]


def test_the_template_of_a_list_of_ones_own_class_is_one_piece_up_to_the_none_that_it_drops() -> None:
    each = _explained(EFFECTS, "0/0")
    (piece,) = [piece for piece in each.pieces if piece.text == f"replays {ROWS}"]
    names = _opcodes(each, piece)
    assert (names[0], names[-2:]) == ("LOAD_GLOBAL", ["LOAD_CONST", "POP_TOP"])
    assert names.count("CALL") == 2


def test_the_template_of_a_dict_of_ones_own_class_is_one_piece_with_its_loop() -> None:
    each = _explained(EFFECTS, "0/0")
    (piece,) = [piece for piece in each.pieces if piece.text == f"replays {TABLE}"]
    names = _opcodes(each, piece)
    assert (names[0], names[-2:]) == ("LOAD_GLOBAL", ["LOAD_CONST", "POP_TOP"])
    assert {"GET_ITER", "FOR_ITER", "JUMP_BACKWARD"} <= set(names)


def test_what_the_values_of_a_template_are_made_by_prepares_it() -> None:
    each = _explained(EFFECTS, "0/0")
    first, second = [piece for piece in each.pieces if piece.text in (f"to replay: {TABLE}", f"to replay: {ROWS}")]
    assert first.last + 1 == second.first
    assert [_opcodes(each, piece)[-2:] for piece in (first, second)] == [
        ["BUILD_MAP", "STORE_FAST"],
        ["BUILD_LIST", "STORE_FAST"],
    ]


def test_of_two_equal_calls_each_code_keeps_its_own() -> None:
    for compile_id in ("0/0", "1/0"):
        each = _explained(EFFECTS, compile_id)
        own = [name for piece in _pieces(each, PieceKind.OWN) for name in _opcodes(each, piece)]
        assert own.count("CALL") == 1
        assert {piece.text for piece in _pieces(each, PieceKind.OWN)} == {"line 22 runs unchanged"}
        assert {piece.text for piece in _pieces(each, PieceKind.OPERAND)} == {
            "what line 22 needs: print('one', end='')"
        }


def test_where_each_line_of_the_old_code_went() -> None:
    each = _explained(EFFECTS, "0/0")
    assert _old(each, PieceKind.TRACED) == [("traced by Dynamo; replaced by graph 0/0", [18, 19, 20, 21, 22])]
    assert _old(each, PieceKind.LATER) == [("left to the resume function 1/0", [22, 23])]


def test_a_comprehension_runs_in_a_function_of_torchs() -> None:
    each = _explained(COMPREHENSION, "0/0")
    texts = [piece.text for piece in _pieces(each, PieceKind.COMPREHENSION)]
    assert texts[-1] == "runs the comprehension of line 7 eagerly, in a function that torch created for it"
    assert set(texts[:-1]) == {"for the comprehension of line 7"}
    assert _opcodes(each, _pieces(each, PieceKind.COMPREHENSION)[-1])[-1] == "CALL_FUNCTION_EX"


def test_what_only_takes_a_null_off_the_stack_belongs_to_torchs_lists() -> None:
    each = _explained(COMPREHENSION, "0/0")
    after = each.codes.after.instructions
    (at,) = [at for at, made in enumerate(after) if made.text == "<function>"]
    (piece,) = [piece for piece in each.pieces if piece.first <= at <= piece.last]
    assert piece.kind is PieceKind.FRAME


def test_the_loop_of_a_comprehension_is_told_from_what_is_around_it() -> None:
    each = _explained(COMPREHENSION, "0/0")
    inside, after = _old(each, PieceKind.LATER)
    assert inside == ("run eagerly, in the function that torch created for the comprehension of line 7", [7])
    assert after == ("left to the resume function 1/0", [8])
    names = [made.opname for made in each.codes.before.instructions]
    (piece,) = [piece for piece in each.old if piece.text == inside[0]]
    assert (names[piece.first], names[piece.last]) == ("FOR_ITER", "END_FOR")


def test_nothing_leads_to_a_graph_that_the_run_does_not_have() -> None:
    each = _explained(replace(EFFECTS, graphs=()), "2/0")
    assert [(piece.text, piece.link) for piece in _pieces(each, PieceKind.GRAPH)] == [
        ("loads the compiled function", ()),
        ("calls the compiled function with 1 input (this run kept no graph of it)", ()),
        ("keeps what the compiled function returned", ()),
    ]
    assert _old(each, PieceKind.TRACED) == [("traced by Dynamo", [22, 23])]
