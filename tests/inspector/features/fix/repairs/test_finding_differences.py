"""Findings of two runs, held against each other."""

from msgspec.structs import replace

from ctrace.inspector.facts.diagnosis import Finding as What
from ctrace.inspector.facts.diagnosis import RootCause, RootKind, Symptom
from ctrace.inspector.facts.findings import Cause, CauseKind, Recompile
from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.fix.repairs.proving import (
    is_left,
    keys_of,
    keys_of_cause,
    new_keys,
    scene_of,
    words_of,
)
from tests.support.sessions import PARTIAL


def test_lines_that_move_change_no_key():
    moved = replace(PARTIAL, breaks=tuple(replace(each, line=each.line + 7) for each in PARTIAL.breaks))
    assert keys_of(moved) == keys_of(PARTIAL)
    assert keys_of(PARTIAL).total() > 0


def test_each_key_belongs_to_a_cause():
    scene = scene_of(PARTIAL)
    assert scene.causes
    for cause in scene.causes:
        keys = keys_of_cause(cause, PARTIAL)
        assert keys
        assert keys <= keys_of(PARTIAL)
        assert all(words_of(key) for key in keys)


def test_a_recompilation_with_two_causes_is_two_findings():
    size = Cause(CauseKind.SIZE, "x.size(0)", "4", "8")
    grad = Cause(CauseKind.REQUIRES_GRAD, "x.requires_grad", "False", "True")
    both = Session(recompiles=(Recompile("0/1", "forward", "f.py", 3, False, (grad, size)),))
    cause = RootCause("size-1", RootKind.SIZE, "t", "f.py", 3, "forward", (Symptom(What.RECOMPILE),))
    left = Session(recompiles=(Recompile("0/1", "forward", "f.py", 3, False, (grad,)),))
    gone = keys_of_cause(cause, both)
    assert not gone & keys_of(left)
    assert keys_of(left) <= keys_of(both)


def test_a_break_that_gets_another_name_at_its_place_is_not_new():
    renamed = replace(PARTIAL, breaks=tuple(replace(each, gb=("GB9999",)) for each in PARTIAL.breaks))
    new, known = new_keys(PARTIAL, renamed)
    assert not new
    assert {key[0] for key in known} == {"break"}
    old = next(key for key in keys_of(PARTIAL) if key[0] == "break")
    assert is_left(old, known)


def test_a_break_at_a_place_that_was_fine_is_new():
    (first, *others) = PARTIAL.breaks
    moved = replace(PARTIAL, breaks=(replace(first, source="elsewhere(x)", line=99), *others))
    new, known = new_keys(PARTIAL, moved)
    assert [key[3] for key in new] == ["elsewhere(x)"]
    assert not known


def test_a_recompilation_has_no_place_that_may_keep_it():
    size = Cause(CauseKind.SIZE, "x.size(0)", "4", "8")
    after = Session(recompiles=(Recompile("0/1", "forward", "f.py", 3, False, (size,)),))
    new, known = new_keys(Session(), after)
    assert new == keys_of(after)
    assert not known
