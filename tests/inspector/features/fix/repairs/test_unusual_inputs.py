"""Which odd inputs the author may rule out, and which of them the unchanged program refuses itself."""

import pytest

from ctrace.inspector.facts.trial import NEEDED, OTHERS_IN_FLOAT64, Entry, Observed
from ctrace.inspector.features.fix.child.argument_probes import (
    broadcast,
    emptied,
    other_kinds,
    other_shapes,
    spelled_out,
)
from ctrace.inspector.features.fix.repairs.comparing import differences
from ctrace.inspector.features.fix.repairs.proving import _accepted, _parted, _question_about

REFUSED = "RuntimeError: masked_fill_ only supports boolean masks"
OTHER = "RuntimeError: too large"


def test_each_probe_of_another_kind_or_shape_is_a_question():
    alone = (*emptied(), *broadcast())
    beside = [f"{name} on all false" for name in alone]
    kinds = [*other_kinds(spelled_out(None)), *other_shapes(), *alone, *beside, "computed inputs", OTHERS_IN_FLOAT64]
    before = Observed(tuple(Entry(f"base, {name}") for name in kinds))
    after = Observed(tuple(Entry(f"base, {name}", raised=OTHER) for name in kinds))
    unusual, found = _parted(differences(before, after))
    assert {each.entry.partition(", ")[2] for each in unusual} == {*kinds}
    assert not found
    assert all("?" in _question_about(each) for each in unusual)


@pytest.mark.parametrize(
    ("all_true", "later", "kept"), [(REFUSED, REFUSED, False), ("", REFUSED, True), (REFUSED, OTHER, True)]
)
def test_masks_that_the_program_refuses_on_its_other_side_are_booleans(all_true: str, later: str, kept: bool):
    dtype = "base, booleans as uint8"
    before = Observed((Entry(dtype), Entry(f"{dtype} all true", raised=all_true), Entry("base, NaN")))
    after = Observed((Entry(dtype, raised=later), Entry(f"{dtype} all true", raised=all_true), Entry("base, NaN")))
    found = _accepted(differences(before, after), before, after)
    assert [each.entry for each in found] == ([dtype] if kept else [])


def test_masks_with_another_result_differ():
    dtype = "base, booleans as uint8"
    before = Observed((Entry(dtype, state=[]), Entry(f"{dtype} all true", raised=REFUSED)))
    after = Observed((Entry(dtype, state=[["input mask", 1]]), Entry(f"{dtype} all true", raised=REFUSED)))
    assert _accepted(differences(before, after), before, after)


@pytest.mark.parametrize(("first", "kept"), [(OTHER, False), ("", True)])
def test_how_an_attribute_of_another_kind_is_refused_does_not_matter(first: str, kept: bool):
    name = "base, object with rate as a fraction on negated"
    before, after = Observed((Entry(name, raised=first),)), Observed((Entry(name, raised=REFUSED),))
    unusual, found = _parted(_accepted(differences(before, after), before, after))
    assert [each.entry for each in unusual] == ([name] if kept else [])
    assert not found
    assert all(_question_about(each).startswith("Do all objects have `self.rate` of") for each in unusual)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "tensor 2 alone in float64 on zeros",
            "With tensor 2 alone in float64, eager differs on the other side of the condition: ",
        ),
        ("tensor 2 alone in float64", "With tensor 2 alone in float64, eager differs: "),
        (f"{OTHERS_IN_FLOAT64} on negated", "In float64, eager differs: "),
    ],
)
def test_a_question_says_where_only_the_other_side_shows_it(name: str, words: str):
    before = Observed((Entry(f"base, {name}"),))
    after = Observed((Entry(f"base, {name}", raised=OTHER),))
    (found,) = _parted(differences(before, after))[0]
    assert words in _question_about(found)


def test_what_a_backward_pass_needs_now_is_a_question_for_either_side():
    name = f"base, {NEEDED} on negated"
    before, after = Observed((Entry(name),)), Observed((Entry(name, needed=("state mask",)),))
    unusual, found = _parted(differences(before, after))
    assert not found
    assert _question_about(unusual[0]).endswith("raises if state mask is written to before it, and did not before.")
    assert not differences(after, before), "the rest may be written to"
