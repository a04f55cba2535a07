"""Logs that TORCH_TRACE wrote elsewhere, as jobs of a check."""

import gzip
import shutil
from pathlib import Path

import pytest

from ctrace.inspector.errors import Exit, RunError
from ctrace.inspector.features.check.check_model import TRACE, CheckOutcome, JobKey, Lock
from ctrace.inspector.features.check.jobs import labels, traced
from ctrace.inspector.features.check.judging import judged
from ctrace.inspector.features.check.policy_model import CheckPolicy, Count, Limits
from ctrace.inspector.features.check.ratchet import updated
from tests.support.gated import ROOT, TODAY, kinds
from tests.support.places import DATA


def folder_of(tmp_path: Path, **logs: str) -> Path:
    """Copy recorded logs into a folder, by the names that torch gives."""
    for name, recorded in logs.items():
        shutil.copy(DATA / f"{recorded}.log", tmp_path / f"dedicated_log_torch_trace_{name}_abc.log")
    return tmp_path


def outcome_of(folder: Path, lock: Lock | None = None, policy: CheckPolicy | None = None) -> CheckOutcome:
    given = policy or CheckPolicy()
    every = list(traced(folder, "train", given, ROOT))
    return judged(every, given, lock or Lock(), TODAY, is_whole=False)


@pytest.mark.parametrize(
    ("ranks", "found"),
    [
        ([None], [""]),
        ([0], ["rank 0"]),
        ([0, 12], ["rank 0", "rank 12"]),
        ([0, 0, 1], ["rank 0 #1", "rank 0 #2", "rank 1"]),
        ([None, None], ["process #1", "process #2"]),
        ([None, 0], ["process", "rank 0"]),
    ],
)
def test_logs_are_named_by_their_ranks(ranks: list[int | None], found: list[str]) -> None:
    assert labels(ranks) == found


def test_compressed_and_nested_logs_count_too(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, rank_0="dynamic_sizes.torch")
    (log,) = folder.iterdir()
    (folder / "attempt_0").mkdir()
    (folder / "attempt_0" / "x_rank_1_a.log.gz").write_bytes(
        gzip.compress(log.read_bytes().replace(b'"rank": 0', b'"rank": 1'))
    )
    assert len(outcome_of(folder).checked) == 2


def test_a_folder_without_logs_is_none(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    for path in (tmp_path, tmp_path / "not_there", tmp_path / "not_there.log"):
        with pytest.raises(RunError):
            list(traced(path, "train", CheckPolicy(), ROOT))


def test_ranks_are_one_job_of_the_lock(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, rank_0="try_break.torch", rank_1="dynamic_sizes.torch")
    first = outcome_of(folder)
    assert [str(each.job) for each in first.checked] == ["train · rank 0", "train · rank 1"]
    assert first.exit is Exit.WORSE
    lock = updated(first)
    assert lock.sections["2.13"].keys() == {JobKey("train", target=TRACE)}
    assert outcome_of(folder, lock).exit is Exit.DONE


def test_a_log_alone_may_be_named(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, rank_0="dynamic_sizes.torch")
    (log,) = folder.iterdir()
    assert outcome_of(log).checked == outcome_of(folder).checked


def test_what_a_trace_shows_more_than_the_lock_is_said(tmp_path: Path) -> None:
    lock = updated(outcome_of(folder_of(tmp_path, rank_0="dynamic_sizes.torch")))
    (worse,) = outcome_of(folder_of(tmp_path, rank_0="try_break.torch"), lock).checked
    assert kinds(worse) == ["new-site", "new-site"]


def test_limits_are_those_of_the_policy(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, rank_0="try_break.torch")
    limits = Limits(dict.fromkeys(Count, 100))
    assert (
        outcome_of(folder, policy=CheckPolicy(limits=limits)).exit is Exit.UNTRUSTED
    )  # the log does not measure everything
    few = Limits({Count.BREAKS: 9, Count.SKIPPED: 9})
    assert outcome_of(folder, policy=CheckPolicy(limits=few)).exit is Exit.DONE


def test_the_lock_of_a_trace_is_none_of_the_policys_models(tmp_path: Path) -> None:
    lock = updated(outcome_of(folder_of(tmp_path, rank_0="dynamic_sizes.torch")))
    there = judged([], CheckPolicy(), lock, TODAY)
    assert there.vanished == ()


@pytest.mark.parametrize("text", ["", "no log at all\n", "\0\0\0", "V0102 03:04:05.000006 77 x.py:1] {"])
def test_a_log_that_holds_nothing_is_never_green(tmp_path: Path, text: str) -> None:
    (tmp_path / "x_rank_0_a.log").write_text(text)
    assert outcome_of(tmp_path).exit is Exit.UNTRUSTED


def test_a_log_that_cannot_be_read_is_wrong_and_hides_no_other(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, rank_0="dynamic_sizes.torch")
    (folder / "x_rank_1_a.log").mkdir()
    outcome = outcome_of(folder)
    assert [kinds(each) for each in outcome.checked] == [["wrong"], ["limit"]]
    assert outcome.exit is Exit.USAGE


def test_a_log_that_was_cut_is_doubted(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, rank_0="try_break.torch")
    (log,) = folder.iterdir()
    lock = updated(outcome_of(folder))
    log.write_bytes(log.read_bytes()[:-200])
    outcome = outcome_of(folder, lock)
    assert outcome.exit is Exit.UNTRUSTED
    assert outcome.checked[0].better == ()
    assert updated(outcome) == lock
