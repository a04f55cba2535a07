"""Two runs of a proof, held against each other."""

from typing import Any

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.trial import Condition, Entry, Observed, Sides
from ctrace.inspector.features.fix.repairs.comparing import checks_of, differences, ended_check, sides_check

TENSOR = ["Tensor", "float32", [2], [1], "cpu", "strided", False, "", "abc"]
ENTRY = Entry("base", outputs=TENSOR, inputs=[TENSOR], state=[], random="r", printed="x\n")
OTHERS: dict[str, Any] = {
    "raised": "ValueError: no",
    "outputs": [*TENSOR[:-1], "xyz"],
    "gradients": [["weight", TENSOR]],
    "inputs": [[*TENSOR[:-1], "xyz"]],
    "state": [["attribute model.count", ["int", "0"], ["int", "1"]]],
    "printed": "",
    "logged": ("root WARNING: x",),
    "warned": ("UserWarning: x",),
    "random": "s",
}


def seen(*entries: Entry) -> Observed:
    return Observed(entries)


def test_equal_calls_do_not_differ():
    assert differences(seen(ENTRY), seen(ENTRY)) == ()
    assert all(each.passed for each in checks_of((), 1))


@pytest.mark.parametrize("kind", OTHERS)
def test_each_way_to_differ_fails_its_own_check(kind: str):
    found = differences(seen(ENTRY), seen(replace(ENTRY, **{kind: OTHERS[kind]})))
    assert [each.kind for each in found] == [kind]
    failed = [each for each in checks_of(found, 1) if not each.passed]
    assert len(failed) == 1
    assert failed[0].detail.startswith("eager ")
    assert "base" in failed[0].detail


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (1, "float64", "has dtype float32 before, float64 after"),
        (2, [3], "has shape"),
        (3, [2], "has stride"),
        (6, True, "has requires_grad"),
        (7, "input 0", "has shared memory none before, input 0 after"),
        (8, "xyz", "has different values"),
    ],
)
def test_a_tensor_that_differs_says_how(place: int, value: Any, words: str):
    other = [*TENSOR[:place], value, *TENSOR[place + 1 :]]
    (found,) = differences(seen(ENTRY), seen(replace(ENTRY, outputs=other)))
    assert words in found.detail


def test_missing_and_new_calls_differ():
    assert [each.detail for each in differences(seen(ENTRY), seen())] == ["this call is missing"]
    assert [each.detail for each in differences(seen(), seen(ENTRY))] == ["this call is new"]


def test_rounded_values_may_differ_but_not_their_form():
    other = replace(ENTRY, outputs=[*TENSOR[:-1], "xyz"])
    assert differences(seen(ENTRY), seen(other), rounded=True) == ()
    wider = replace(ENTRY, outputs=["Tensor", "float64", *TENSOR[2:]])
    assert differences(seen(ENTRY), seen(wider), rounded=True)


def test_integers_are_never_rounded():
    whole = ["Tensor", "int64", *TENSOR[2:]]
    one, other = replace(ENTRY, outputs=whole), replace(ENTRY, outputs=[*whole[:-1], "xyz"])
    assert differences(seen(one), seen(other), rounded=True)


CONDITION = Condition("f.py", 7, "x.sum() > 0")


@pytest.mark.parametrize(
    ("sides", "passed", "words"),
    [
        (Sides(CONDITION, ("a",), ("b",)), True, "both sides"),
        (Sides(CONDITION, ("a",), ()), False, "no input took the other side of line 7: `x.sum() > 0` was never false"),
        (Sides(CONDITION, (), ("a",)), False, "never true"),
        (Sides(CONDITION), False, "line 7 was never run"),
        (Sides(CONDITION, ("a",), ("b",), "NameError: y"), False, "cannot be evaluated: NameError: y"),
        (Sides(Condition("f.py", 8, ""), ("a",)), True, "every changed line"),
        (Sides(Condition("f.py", 8, "")), False, "line 8 was never run"),
    ],
)
def test_both_sides(sides: Sides, passed: bool, words: str):
    found = sides_check([sides], None)
    assert found is not None
    assert found.passed is passed
    assert words in found.detail


def test_without_conditions_there_is_no_check_of_sides():
    assert sides_check([], None) is None
    assert sides_check([Sides(Condition("/a.py", 3, "x > 0", is_part=True), ("base",))], None) is None


ENDLESS = Entry("base, infinity", unended=5.0)
BRANCH = Condition("/a.py", 3, "x > 0")


def test_a_call_that_no_longer_ends_after_the_change_differs():
    assert differences(seen(ENTRY, ENDLESS), seen(ENTRY, Entry("base, infinity"))) == ()
    assert differences(seen(ENTRY, ENDLESS), seen(ENTRY)) == ()  # it is not called again
    (found,) = differences(seen(Entry("base, infinity")), seen(ENDLESS))
    assert found.detail == "did not end within 5 s after, ended before"


@pytest.mark.parametrize(
    ("sides", "keeps_eager", "passes"),
    [
        ([Sides(BRANCH, ("base",), ("base, infinity",))], False, False),
        ([Sides(BRANCH, ("base",), ("base, zeros",))], False, True),
        ([], False, False),
        ([], True, True),
    ],
)
def test_a_call_that_never_ends_proves_nothing_about_what_it_runs(sides: list[Sides], keeps_eager: bool, passes: bool):
    assert differences(seen(ENDLESS), seen(ENDLESS)) == ()
    check = ended_check(seen(ENTRY, ENDLESS), sides, keeps_eager=keeps_eager)
    assert check is not None
    assert check.passed is passes
    assert "the call with base, infinity did not end within 5 s" in check.detail


def test_calls_that_all_end_need_no_check():
    assert ended_check(seen(ENTRY), [Sides(BRANCH)], keeps_eager=False) is None


NO_COPY = "RuntimeError: The default implementation of __deepcopy__() for non-wrapper subclasses only works for ..."


@pytest.mark.parametrize(
    ("name", "raised", "passes"),
    [
        ("base, subclass", NO_COPY, True),
        ("base, zeros", NO_COPY, False),
        ("base, subclass", "TypeError: no subclasses here", False),
    ],
)
def test_only_a_copy_that_torch_refuses_may_work_after(name: str, raised: str, passes: bool):
    found = differences(seen(Entry(name, raised=raised)), seen(replace(ENTRY, name=name)))
    assert all(each.passed for each in checks_of(found, 1)) is passes


def test_what_a_call_that_raises_does_not_return_follows_from_that():
    raising = replace(ENTRY, raised="ValueError: no", outputs=None, gradients=None, printed="")
    assert [each.kind for each in differences(seen(ENTRY), seen(raising))] == ["raised", "printed"]
    other = replace(raising, raised="KeyError: no", state=[["attribute model.count", ["int", "0"], ["int", "1"]]])
    assert [each.kind for each in differences(seen(raising), seen(other))] == ["raised", "state"]


def test_a_second_call_that_one_run_lacks_follows_from_how_the_first_one_ended():
    raising, ended = Entry("base, subclass", raised="RuntimeError: x"), Entry("base, subclass")
    again = replace(ended, call=1)
    (found,) = differences(seen(raising, again), seen(ended))
    assert (found.kind, found.call) == ("raised", 0)
    assert [each.detail for each in differences(seen(ended, again), seen(ended))] == ["this call is missing"]


@pytest.mark.parametrize(
    ("was", "now", "count"),
    [
        ("RuntimeError: sizes", "TorchRuntimeError: RuntimeError when making fake tensor call\n  Explanation: ...", 0),
        ("IndexError: 3", "TorchRuntimeError: RuntimeError when making fake tensor call\n  Explanation: ...", 1),
        ("RuntimeError: sizes", "TorchRuntimeError: IndexError when making fake tensor call\n  Explanation: ...", 1),
        ("", "TorchRuntimeError: RuntimeError when making fake tensor call\n  Explanation: ...", 1),
    ],
)
def test_an_error_of_a_side_that_torch_cond_words_otherwise(was: str, now: str, count: int):
    found = differences(seen(Entry("base", raised=was)), seen(Entry("base", raised=now)))
    assert len(found) == count


def test_a_gradient_that_only_one_of_two_runs_has():
    one, other = (Entry("base", gradients=[["a.weight", each]]) for each in (["NoneType", "None"], TENSOR))
    (found,) = differences(seen(one), seen(other))
    assert found.detail == "the gradient of a.weight is None before, Tensor float32 after"
