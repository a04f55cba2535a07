"""Which finding is chosen, and when a run or an output shows it."""

import pytest

from ctrace.inspector.diagnosis.root_causes import lead_of, root_causes
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.diagnosis import Finding, RootCause, RootKind, Symptom
from ctrace.inspector.facts.findings import Break, BreakKind, Cause, CauseKind, Danger, Recompile, Skip
from ctrace.inspector.facts.outcome import Failure, FailurePhase
from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.fix.reduction.finding import (
    DIFFERS,
    Sought,
    chosen,
    gbs_of,
    is_reason,
    is_shown,
    quoted_places,
    shape_of,
    sought,
    title_in,
)
from ctrace.inspector.features.fix.reduction.reproducing import is_in
from tests.support.helpers import MODEL
from tests.support.sessions import bare_break

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


Thing = Break | Skip | Recompile | Danger | Failure


def found(*things: Thing) -> Session:
    """Return a run with these findings."""
    return Session(
        breaks=tuple(each for each in things if isinstance(each, Break)),
        skips=tuple(each for each in things if isinstance(each, Skip)),
        recompiles=tuple(each for each in things if isinstance(each, Recompile)),
        dangers=tuple(each for each in things if isinstance(each, Danger)),
        failure=next((each for each in things if isinstance(each, Failure)), None),
    )


def recompile(kind: CauseKind, subject: str) -> Recompile:
    change = Cause(kind, subject, was="1", now="2", line=10, file=MODEL)
    return Recompile("0/1", "forward", MODEL, 10, False, (change,))


def danger(kind: str, subject: str, *, proven: bool = True) -> Danger:
    return Danger("base", 0, kind, subject, file=MODEL, line=10, proven=proven)


PRINT = bare_break(gb=("GB0059",), construct="print", title="A print in compiled code", source="print(x)")
ITEM = bare_break(construct="item", title="A tensor becomes a number", source="x.item()")
DISABLED = [
    bare_break(gb=("GB0098",), kind=BreakKind.DISABLED, title="A function kept out", called=called, source=called)
    for called in ("<function first at 0x7f>", "<function second at 0x8f>")
]
BRANCHES = [bare_break(gb=("GB0170",), construct=each, title=f"An {each}", source=each) for each in ("if", "assert")]
COUNTER, SIZE = recompile(CauseKind.ATTRIBUTE_VALUE, "self.calls"), recompile(CauseKind.SIZE, "x.size(0)")
SCALE, SHIFT = danger("environment", "SCALE"), danger("environment", "SHIFT")
RAISED = Failure(FailurePhase.RUN, "ValueError", "no such op", file=MODEL, line=10)
PAIRS: dict[str, tuple[Thing, Thing]] = {
    "two breaks": (PRINT, ITEM),
    "two breaks with one id": (BRANCHES[0], BRANCHES[1]),
    "two functions": (DISABLED[0], DISABLED[1]),
    "a break and a recompilation": (PRINT, COUNTER),
    "a break and a skip": (ITEM, Skip("forward", MODEL, 10, "", rule="loop")),
    "a break and a danger": (PRINT, SCALE),
    "a break and a failure": (ITEM, RAISED),
    "two recompilations": (COUNTER, SIZE),
    "two attributes": (COUNTER, recompile(CauseKind.ATTRIBUTE_VALUE, "self.scale")),
    "two sizes": (SIZE, recompile(CauseKind.SIZE, "y.size(0)")),
    "a recompilation and a danger": (COUNTER, SCALE),
    "a skip and a recompilation": (Skip("forward", MODEL, 10, "", rule="loop"), SIZE),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_of_two_findings_of_a_line_the_one_of_the_title_is_sought(pair: str) -> None:
    both = found(*PAIRS[pair])
    causes = root_causes(both)
    for each in causes:
        lead = lead_of(each, both)
        one, two = PAIRS[pair]
        mine, other = (one, two) if found(one) == alone(lead, both) else (two, one)
        what = sought(each, both)
        assert what.title == each.title == root_causes(found(mine))[0].title
        assert is_shown(what, showing(mine), MODEL, (10,))
        assert not is_shown(what, showing(other), MODEL, (10,))
        assert title_in(what, both, MODEL, (10,)) == each.title


def alone(symptom: Symptom, session: Session) -> Session:
    lists = {Finding.BREAK: "breaks", Finding.SKIP: "skips", Finding.RECOMPILE: "recompiles", Finding.DANGER: "dangers"}
    if symptom.what is Finding.FAILURE:
        return found(session.failure or RAISED)
    return found(getattr(session, lists[symptom.what])[symptom.index])


def showing(thing: Thing) -> Session:
    """Return a run of a program with one finding; a wrong result is an assertion there."""
    if isinstance(thing, Danger):
        return found(Failure(FailurePhase.RUN, "AssertionError", DIFFERS, file=MODEL, line=10))
    return found(thing)


@pytest.mark.parametrize(
    ("one", "other", "word"),
    [
        (SCALE, SHIFT, "SCALE"),
        (danger("hook", "model.fc (forward)"), danger("method", "Helper.scaled"), "hook"),
        (danger("global", "settings.late"), danger("attribute", "model.early"), "late"),
        (danger("closure", "factor (closure of f)"), SCALE, "factor"),
        (danger("torch_switch", "torch.get_default_dtype()"), SCALE, "default_dtype"),
    ],
)
def test_of_two_wrong_results_the_one_of_the_title_is_sought(one: Danger, other: Danger, word: str) -> None:
    both = found(one, other)
    first, second = root_causes(both)
    mine, of_other = (first, second) if first.title == root_causes(found(one))[0].title else (second, first)
    assert sought(mine, both).same == (word,)
    assert word in sought(of_other, both).others
    assert word not in sought(of_other, both).same
