"""Choose the next job that fits into memory."""

from ctrace.inspector.features.check.check_model import CheckJob, JobKey
from ctrace.inspector.features.check.pool import MemoryBudget
from ctrace.inspector.runs.capture_request import Options

GIB = 1 << 30


def _job(model: str, scenario: str = "base") -> CheckJob:
    return CheckJob(JobKey(model, scenario), model, Options())


A, B, C = map(_job, "abc")


def test_one_always_runs() -> None:
    assert MemoryBudget(1).fitting([A, B], []) is A
    assert MemoryBudget(1).fitting([], []) is None


def test_jobs_are_guessed_until_one_has_ended() -> None:
    room = MemoryBudget(2 * GIB)
    assert room.fitting([B, C], [(A, 0)]) is B
    assert room.fitting([C], [(A, 0), (B, 0)]) is None


def test_the_same_model_needs_the_same_and_others_what_is_usual() -> None:
    room = MemoryBudget(4 * GIB)
    room.learn(A, 3 * GIB)
    assert room.fitting([_job("a", "train")], [(B, 0)]) is None  # the estimate for B is as high
    room.learn(B, GIB)
    room.learn(C, GIB)
    assert room.fitting([_job("a", "train")], [(B, 0)]) is not None
    assert room.fitting([_job("new")], [(A, 0)]) is not None


def test_a_smaller_job_goes_before_one_that_does_not_fit() -> None:
    room = MemoryBudget(4 * GIB)
    room.learn(A, 3 * GIB)
    room.learn(B, GIB)
    assert room.fitting([_job("a", "train"), B], [(A, 0)]) is B


def test_what_a_job_holds_already_counts_more_than_what_was_thought() -> None:
    assert MemoryBudget(2 * GIB).fitting([B], [(A, 3 * GIB // 2)]) is None


def test_what_was_not_measured_teaches_nothing() -> None:
    room = MemoryBudget(2 * GIB)
    room.learn(A, 0)
    assert room.fitting([B], [(A, 0)]) is B
