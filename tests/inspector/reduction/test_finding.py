"""Which finding is chosen, and when a run or an output shows it."""

import pytest

from ctrace.inspector.errors import TargetError
from ctrace.inspector.model.diagnosis import Finding, RootCause, RootKind, Symptom
from ctrace.inspector.reduction.finding import Sought, chosen, gbs_of, is_reason, quoted_places, shape_of
from ctrace.inspector.reduction.verifying import is_in

BREAK = """torch._dynamo.exc.Unsupported: Data-dependent branching
  For more details about this graph break, please visit: https://docs.pytorch.org/compile/gb/gb0170.html

from user code:
   File "repro.py", line 9, in outer
    return f(x)
  File "repro.py", line 6, in f
    if x.sum() > 0:
"""
RECOMPILE = """torch._dynamo.exc.RecompileError: Recompiling function f in /a folder/repro.py:7
    triggered by the following guard failure(s):
    - 0/0: tensor 'x' size mismatch at index 0. expected 4, actual 3  # return x * 2  # repro.py:8 in f
"""


def cause(name: str, line: int, *, expected: str = "", what: Finding = Finding.BREAK) -> RootCause:
    return RootCause(
        name, RootKind.OTHER, "a title", "/home/me/model.py", line, "forward", (Symptom(what),), expected=expected
    )


def test_the_first_finding_that_should_change_is_the_default():
    causes = [cause("a", 1, expected="no harm"), cause("b", 2), cause("c", 3)]
    assert chosen(causes, None).id == "b"
    assert chosen(causes[:1], None).id == "a"


@pytest.mark.parametrize("site", ["c", "model.py:3", "me/model.py:3"])
def test_a_finding_is_named_by_id_or_place(site: str):
    assert chosen([cause("b", 2), cause("c", 3)], site).id == "c"


def test_an_unknown_finding_gets_a_suggestion():
    with pytest.raises(TargetError) as error:
        chosen([cause("tensor_branch-12", 2)], "tensor_branch-13")
    assert error.value.todo == "did you mean tensor_branch-12?"
    with pytest.raises(TargetError) as error:
        chosen([cause("tensor_branch-12", 2)], "model.py:3")
    assert error.value.todo == "did you mean model.py:2?"


def test_a_run_without_findings_has_nothing_to_reproduce():
    with pytest.raises(TargetError, match="no finding to reproduce"):
        chosen([cause("a", 1, what=Finding.ATTENTION)], None)


def test_a_break_is_read_from_torchs_exception():
    assert gbs_of(BREAK) == {"GB0170"}
    assert quoted_places(BREAK) == [("repro.py", 6)]


@pytest.mark.parametrize(
    ("gb", "lines", "is_there"),
    [("GB0170", (6,), True), ("GB0170", (9,), True), ("GB0170", (5,), False), ("GB0059", (6,), False)],
)
def test_an_output_shows_a_break_only_with_its_id_and_line(gb: str, lines: tuple[int, ...], is_there: bool):
    assert is_in(BREAK, 1, Sought("a", Finding.BREAK, gb, (gb,)), lines) is is_there


def test_a_recompilation_is_read_from_torchs_exception():
    sought = Sought("a", Finding.RECOMPILE, "", ("size",))
    assert is_reason(sought, RECOMPILE)
    assert is_in(RECOMPILE, 1, sought, (7, 8))
    assert not is_in(RECOMPILE, 1, sought, (9,))
    assert not is_in("", 0, sought, (7,))


def test_messages_have_the_same_shape_whatever_their_numbers_and_names():
    one = "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x4) in 'layer' for 0x7f\nmore"
    other = "mat1 and mat2 shapes cannot be multiplied (8x9 and 1x1) in 'other' for 0x8e"
    assert shape_of(one) == shape_of(other)
    assert shape_of(one) != shape_of("another message")


def test_an_exception_of_another_shape_is_another_failure():
    sought = Sought("a", Finding.FAILURE, "", ("ValueError",), shape_of("bad size 3"))
    assert is_in("Traceback\nValueError: bad size 7\n", 1, sought, ())
    assert not is_in("Traceback\nValueError: bad dtype\n", 1, sought, ())
    assert not is_in("Traceback\nTypeError: bad size 7\n", 1, sought, ())
    assert not is_in("ValueError: bad size 7\n", 0, sought, ())
