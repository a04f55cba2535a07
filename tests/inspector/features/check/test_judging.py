"""The outcome of all jobs of a check."""

from datetime import date

import pytest

from ctrace.inspector.errors import Exit, TargetError
from ctrace.inspector.features.check.check_model import CheckedState, FindingKind, GateFinding, JobKey, Lock
from ctrace.inspector.features.check.policy_model import Allow
from tests.support.gated import checked_of, kinds, lock_of, outcome_of, seen_of, site, state_with

GIVEN = state_with(site())


def lock_with(*models: str, torch: str = "2.13") -> Lock:
    every = {JobKey(model): known for model in models for known in lock_of(GIVEN).sections["2.13"].values()}
    return Lock({torch: every}, "ctrace.lock")


def test_a_check_of_no_model_is_not_green() -> None:
    assert outcome_of([]).exit is Exit.USAGE
    assert outcome_of([], lock_with("a.py")).exit is Exit.USAGE


def test_a_model_that_cannot_run_is_wrong_and_does_not_hide_others() -> None:
    outcome = outcome_of(seen_of(GIVEN), wrong=[(JobKey("gone.py"), TargetError("no file", "add it"))])
    assert [(each.job.model, kinds(each)) for each in outcome.checked] == [
        ("gone.py", ["wrong"]),
        ("model.py", ["limit"]),
    ]
    assert outcome.exit is Exit.USAGE


def test_a_model_that_vanished_is_said_where_all_were_checked() -> None:
    lock = lock_with("model.py", "other.py")
    outcome = outcome_of(seen_of(GIVEN), lock)
    assert [each.what for each in outcome.findings] == ["other.py is in the lock but no longer in the policy"]
    assert (outcome.exit, outcome.vanished) == (Exit.USAGE, ("other.py",))
    assert outcome_of(seen_of(GIVEN), lock, is_whole=False).exit is Exit.DONE


def test_a_model_that_cannot_run_has_not_vanished() -> None:
    lock = lock_with("model.py", "other.py")
    outcome = outcome_of(seen_of(GIVEN), lock, wrong=[(JobKey("other.py"), TargetError("it does not parse", ""))])
    assert outcome.vanished == ()


def test_a_model_whose_file_was_moved_is_known() -> None:
    outcome = outcome_of(seen_of(GIVEN, job=JobKey("new/model.py")), lock_with("old/model.py"))
    assert outcome.exit is Exit.DONE
    assert outcome.notes == (
        "new/model.py is treated as old/model.py in the lock; ctrace check --update records the new name",
    )


def test_a_moved_model_is_held_to_its_record() -> None:
    worse = state_with(site(), site("y.item()", gb="GB0124"))
    outcome = outcome_of(seen_of(worse, job=JobKey("new/model.py")), lock_with("old/model.py"))
    assert kinds(outcome.checked[0]) == ["new-site"]


def test_where_two_could_have_moved_none_is_taken_for_another() -> None:
    came = [seen_of(GIVEN, job=JobKey(f"{folder}/model.py")) for folder in "bc"]
    outcome = outcome_of(came, lock_with("a/model.py"))
    assert (outcome.moved, kinds(outcome)) == ({}, ["vanished"])
    went = outcome_of(came[0], lock_with("x/model.py", "y/model.py"))
    assert (went.moved, kinds(went)) == ({}, ["vanished", "vanished"])


def test_a_renamed_file_is_known_by_what_it_shows() -> None:
    outcome = outcome_of(seen_of(GIVEN, job=JobKey("nets/new.py")), lock_with("nets/old.py"))
    assert outcome.exit is Exit.DONE
    assert outcome.notes == (
        "nets/new.py is treated as nets/old.py in the lock; ctrace check --update records the new name",
    )


@pytest.mark.parametrize(
    "came",
    [state_with(), state_with(site(), graphs=2), state_with(site(times=2)), state_with(site(), site("y.item()"))],
)
def test_what_shows_more_or_less_than_the_one_that_is_gone_is_not_that_one(came: CheckedState) -> None:
    outcome = outcome_of(seen_of(came, job=JobKey("nets/new.py")), lock_with("nets/old.py"))
    assert (outcome.moved, kinds(outcome)) == ({}, ["vanished"])


def test_where_two_could_have_been_renamed_none_is_taken_for_another() -> None:
    outcome = outcome_of(seen_of(GIVEN, job=JobKey("new.py")), lock_with("a.py", "b.py"))
    assert (outcome.moved, kinds(outcome)) == ({}, ["vanished", "vanished"])


def test_a_copy_of_a_model_is_new() -> None:
    both = [seen_of(GIVEN, job=JobKey(model)) for model in ("a/model.py", "b/model.py")]
    outcome = outcome_of(both, lock_with("a/model.py"))
    assert [(each.job.model, each.is_new) for each in outcome.checked] == [("a/model.py", False), ("b/model.py", True)]
    assert outcome.notes == ("b/model.py is not in the lock; ctrace check --update adds it",)


def test_a_model_that_failed_is_not_promised_to_the_lock() -> None:
    doubt = GateFinding(FindingKind.FAILED, "without torch.compile it raises ValueError: no")
    both = [seen_of(GIVEN, job=JobKey("a/model.py")), seen_of(GIVEN, job=JobKey("b/model.py"), doubts=(doubt,))]
    outcome = outcome_of(both, lock_with("a/model.py"))
    assert not any(each.is_new for each in outcome.checked)
    assert outcome.notes == ()


def test_versions_of_torch_are_asked_for_one_by_one() -> None:
    both = [seen_of(state_with(torch=torch), job=JobKey(torch)) for torch in ("2.12", "2.13")]
    outcome = outcome_of(both, lock_with("2.13"))
    assert (outcome.torch, kinds(outcome)) == ("2.12, 2.13", ["no-section"])


def test_entries_of_no_use_are_said_where_all_could_be_seen() -> None:
    entry = Allow("", gb="GB9999", line=4)
    assert outcome_of(seen_of(state_with()), allow=[entry]).notes == (
        "the allow entry in line 4 (GB9999) no longer matches anything; remove it",
    )
    failed = seen_of(state_with(), doubts=(GateFinding(FindingKind.CRASHED, ""),), has_ended=False)
    for outcome in (
        outcome_of(failed, allow=[entry]),
        outcome_of(seen_of(state_with()), allow=[entry], wrong=[(JobKey("x.py"), TargetError("", ""))]),
        outcome_of(seen_of(state_with()), allow=[entry], is_whole=False),
    ):
        assert outcome.notes == ()


def test_an_entry_that_expired_is_said_though_its_break_is_in_the_lock() -> None:
    entry = Allow("", gb="GB0059", line=4, expires=date(2020, 1, 1))
    outcome = outcome_of(seen_of(GIVEN), lock_of(GIVEN), allow=[entry])
    assert outcome.exit is Exit.DONE
    assert outcome.notes == ("the allow entry in line 4 (GB0059) expired on 2020-01-01: its site still exists",)


def test_ranks_are_judged_by_one_record() -> None:
    ranks = [seen_of(GIVEN, job=JobKey("t", f"rank {n}"), known_as=JobKey("t")) for n in range(2)]
    outcome = outcome_of(ranks, lock_of(GIVEN, JobKey("t")))
    assert [(str(each.job), each.exit) for each in outcome.checked] == [("t · rank 0", 0), ("t · rank 1", 0)]
    assert checked_of(ranks[0], lock_of(state_with(), JobKey("t"))).exit is Exit.WORSE
