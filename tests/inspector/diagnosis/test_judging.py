"""Which advice trials confirm: by totals and by the causes that a trial removed; and the order of trials."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.diagnosis.advise import counts, diagnose, trials
from ctrace.inspector.diagnosis.root_causes import root_causes
from ctrace.inspector.diagnosis.rules import output_rules, value_rules
from ctrace.inspector.facts.diagnosis import Counts, Effect
from ctrace.inspector.facts.findings import Cause, CauseKind, Recompile
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.trial import UNCHANGED, Trial
from tests.inspector.diagnosis.scenes import FILE, broken, ran, scene, with_trial

TEXT = "import torch\ndef forward(x):\n    a = x.item()\n    print(a)\n    b = x.item()\n    return a + b"


@pytest.mark.parametrize(
    ("before", "after", "helps"),
    [
        (Counts(3, 2, 0, 80.0), Counts(1, 0, 1, 80.0), True),  # a recompilation in place of two breaks
        (Counts(0, 1, 0, 0.0), Counts(1, 0, 0, 100.0), True),  # the first graph
        (Counts(2, 1, 1, 90.0), Counts(1, 1, 0, 60.0), False),  # fewer graphs, since less is compiled
        (Counts(6, 1, 0), Counts(4, 2, 0), False),  # one more break
        (Counts(2, 1, 0, 80.0), Counts(2, 1, 0, 80.0), False),
        (Counts(3, 2, 0, 70.0), Counts(4, 1, 0, 90.0), True),  # more is compiled, in as many pieces
    ],
)
def test_advice_helps_by_totals(before, after, helps):
    assert Effect(before, after).helps is helps


def test_a_trial_decides_what_it_is_good_for():
    run = with_trial(ran(TEXT, broken(3), broken(5)), value_rules.SCALARS, Counts(1, 0, 0, 90.0))
    (advice,) = diagnose(run).advice
    assert advice.checked
    assert set(advice.causes) == {cause.id for cause in root_causes(run)}


def test_what_a_trial_left_is_not_covered_by_it():
    run = with_trial(ran(TEXT, broken(3), broken(5)), value_rules.SCALARS, Counts(2, 1, 0, 90.0), f"{FILE}:5")
    first, *others = diagnose(run).advice
    assert first.checked
    assert len(first.causes) == 1
    assert all(not set(first.causes) & set(each.causes) for each in others)


def test_a_break_that_moved_is_no_help():
    run = with_trial(ran(TEXT, broken(3), broken(5)), value_rules.SCALARS, Counts(3, 1, 0, 90.0), f"{FILE}:6")
    assert not any(each.checked for each in diagnose(run).advice)


def test_an_edit_that_uncovers_the_next_break_is_a_first_step_and_says_so():
    text = "import time\nimport torch\n\ndef forward(self, x):\n    began = time.time()\n    return x.item() - began"
    run = ran(text, broken(5, "GB0007", construct="clock"))
    (edit,) = (each.trial for each in output_rules.clocks(scene(run)))
    assert edit is not None
    tried = with_trial(run, edit, counts(run), f"{FILE}:6")
    (advice,) = diagnose(tried).advice
    assert advice.text.endswith("Alone it changes no count: the next graph break is at net.py:6.")
    assert advice.checked is None
    (other,) = diagnose(with_trial(run, edit, counts(run), f"{FILE}:5")).advice
    assert "Alone" not in other.text


def test_no_more_is_tried_once_nothing_is_left():
    run = ran(TEXT, broken(3))
    healed = ran(TEXT)
    assert len(list(trials(run, lambda _trial, _backend: healed))) == 1


def test_breaks_are_joined_by_what_they_share_alone():
    run = ran(TEXT, broken(3), broken(4, "GB0059", expression="print(a)"), broken(5))
    assert len(root_causes(run)) == 3


def test_one_break_less_of_several_at_a_line_is_no_help():
    run = ran(TEXT, broken(3), broken(3, "GB0036"), broken(5))
    left = with_trial(run, value_rules.SCALARS, Counts(4, 2, 0, 90.0), f"{FILE}:3", f"{FILE}:5")
    assert not any(each.checked for each in diagnose(left).advice)
    gone = with_trial(run, value_rules.SCALARS, Counts(4, 2, 0, 90.0), f"{FILE}:3")
    assert any(each.checked for each in diagnose(gone).advice)


def test_trials_end_once_only_what_is_expected_is_left():
    size = Cause(CauseKind.SIZE, "x.size(0)", "8", "3", is_open=True)
    growing = Recompile("0/1", "forward", FILE, 2, False, (size,))
    first_change = replace(growing, expected=True, why_expected="The first change recompiles once.")
    run = ran(TEXT, broken(3), broken(5), recompiles=(growing,))
    settled = ran(TEXT, recompiles=(first_change,), calls=10)
    asked: list[Trial] = []

    def attempt(trial: Trial, _backend: bool) -> Session:
        asked.append(trial)
        return settled

    done = tuple(trials(run, attempt))
    assert asked == [UNCHANGED, value_rules.SCALARS]
    assert done[-1].settled
    (advice,) = diagnose(replace(run, trials=done)).advice  # not also one on the size, which is expected now
    assert set(advice.causes) == {cause.id for cause in root_causes(run)}


def test_a_trial_that_leaves_something_does_not_end_the_trials():
    run = ran(TEXT, broken(3), broken(5))
    left = ran(TEXT, broken(5))
    assert len(tuple(trials(run, lambda _trial, _backend: left))) > 1
