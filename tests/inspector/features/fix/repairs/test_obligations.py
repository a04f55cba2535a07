"""Each way to tell two programs apart is closed by name, or open with what differs."""

import ast
from collections import Counter

from ctrace.inspector.facts.trial import Entry, Observed
from ctrace.inspector.features.fix.repairs.comparing import CallDifference
from ctrace.inspector.features.fix.repairs.obligations import NAMES, asked, not_tried, question_about, tried, with_cost
from ctrace.inspector.features.fix.repairs.repair_result import How, Obligation
from tests.support.obligation_traps import obligation_traps

CALLS = Observed(
    (Entry("base"), Entry("base, model in float16"), Entry("base, all trained", gradients=[["input 0", []]]))
)


def by_name(found: tuple[Obligation, ...]) -> dict[str, Obligation]:
    assert tuple(each.name for each in found) == NAMES
    return {each.name: each for each in found}


def test_equal_calls_close_everything_by_trying():
    found = by_name(tried(["hoist_import"], CALLS, []))
    assert all(each.closed and each.how is How.TRYING for each in found.values())
    assert found["dtype"].detail == "the same in 1 calls"
    assert found["gradient"].detail == "the same in 1 calls"


def test_what_a_repair_excludes_is_closed_by_reading():
    found = by_name(tried(["tensor_scalar"], CALLS, []))
    assert found["identity"].how is How.READING
    assert by_name(tried(["tensor_scalar", "hoist_import"], CALLS, []))["identity"].how is How.TRYING


def test_reading_a_statement_excludes_nothing_that_hooks_do():
    found = by_name(tried(["tensor_branch"], CALLS, [], runs_hooks=True))
    assert [found[name].how for name in ("effects", "random", "overflow")] == [How.TRYING, How.TRYING, How.READING]
    kept = by_name(tried(["capture_scalar_outputs"], CALLS, [], keeps_eager=True, runs_hooks=True))
    assert kept["effects"].how is How.READING


def test_a_setting_leaves_eager_alone():
    found = by_name(tried(["capture_scalar_outputs"], CALLS, [], keeps_eager=True))
    assert {name for name, each in found.items() if each.how is How.TRYING} == {"compiled"}


def test_each_difference_opens_its_obligation():
    differences = [
        CallDifference("base", 0, "outputs", "one"),
        CallDifference("base, model in float16 times 30", 0, "outputs", "two"),
        CallDifference("base, model in float16", 0, "outputs", "three"),
        CallDifference("base, called twice", 0, "outputs", "four"),
        CallDifference("base, all trained", 0, "stored", "five"),
        CallDifference("base", 0, "raised", "six"),
        CallDifference("base, saved", 0, "outputs", "seven"),
    ]
    found = by_name(tried(["tensor_scalar"], CALLS, differences))
    opened = {name: each.detail.rpartition(" ")[2] for name, each in found.items() if not each.closed}
    assert opened == {
        "value": "one",
        "overflow": "two",
        "dtype": "three",
        "identity": "four",
        "gradient": "five",
        "exceptions": "six",
        "state": "seven",
    }


def test_a_difference_of_inputs_alone_is_no_news_with_another_model():
    differences = [
        CallDifference("base, batch 65", 0, "outputs", "one"),
        CallDifference("base, model in float16 on batch 65", 0, "outputs", "two"),
        CallDifference("base, all trained on zeros", 0, "gradients", "three"),
    ]
    found = by_name(tried(["hoist_import"], CALLS, differences))
    assert {name for name, each in found.items() if not each.closed} == {"value", "gradient"}
    differences = [
        CallDifference("base, model in float64", 0, "outputs", "one"),
        CallDifference("base, model in float64 on large", 0, "outputs", "two"),
    ]
    found = by_name(tried(["hoist_import"], CALLS, differences))
    assert [name for name, each in found.items() if not each.closed] == ["dtype"]


def test_a_size_that_is_tried_in_another_precision_only_says_nothing_of_the_precision_where_sizes_differ():
    sized = CallDifference("base, model in bfloat16 on dimension 0 of 1203", 0, "outputs", "two")
    found = by_name(tried(["hoist_import"], CALLS, [CallDifference("base, batch 65", 0, "outputs", "one"), sized]))
    assert [name for name, each in found.items() if not each.closed] == ["value"]
    found = by_name(tried(["hoist_import"], CALLS, [sized]))
    assert [name for name, each in found.items() if not each.closed] == ["dtype"]


def test_a_call_that_differs_closes_nothing():
    found = by_name(tried(["hoist_import"], CALLS, [CallDifference("base, all trained", 0, "printed", "one")]))
    assert found["value"].detail == "the same in 2 calls"
    assert found["gradient"].detail == "the same in 0 calls"


def test_what_shows_nothing_leaves_values_open():
    assert not by_name(tried([], CALLS, [], unreached="line 41 was never run"))["value"].closed
    assert not any(each.closed for each in not_tried("there is something new"))


def test_a_question_is_open_until_it_is_answered():
    questions = {question_about(["counter_attribute"]): "May it be a tensor?"}
    before = by_name(asked(tried(["counter_attribute"], CALLS, []), questions, accepted=False))
    after = by_name(asked(tried(["counter_attribute"], CALLS, []), questions, accepted=True))
    assert (before["state"].closed, before["state"].how) == (False, How.QUESTION)
    assert after["state"].closed


def test_the_cost_in_eager():
    every = tried(["tensor_scalar"], CALLS, [])
    assert by_name(with_cost(every, 1.2, asks=""))["eager_cost"].closed
    assert not by_name(with_cost(every, 148.0, asks="May eager calls take 148 times as long?"))["eager_cost"].closed
    assert not by_name(with_cost(every, None, asks=""))["eager_cost"].closed


def test_each_obligation_has_ten_traps_of_its_own():
    """That it alone refuses them is tested one by one (tests/integration/test_trap_programs.py)."""
    every = obligation_traps()
    assert len({(each.before, each.after) for each in every}) == len({each.id for each in every}) == len(every)
    numbers = Counter(each.obligation for each in every)
    assert {*numbers} == {*NAMES}
    assert min(numbers.values()) >= 10
    for each in every:
        ast.parse(each.before)
        ast.parse(each.after)
