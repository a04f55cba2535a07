"""A change of arithmetic: each call that both programs return from is compared with the values that the changed one saved."""

from typing import Any

import pytest

from ctrace.inspector.facts.trial import Entry, Observed, ProofRequest, Trial
from ctrace.inspector.features.fix.repairs.proving import Prover
from ctrace.inspector.features.fix.repairs.repair_result import ProofCheck
from tests.inspector.diagnosis.scenes import ran

BEFORE = Observed(
    (Entry("base"), Entry("base, zeros", raised="ValueError: no"), Entry("base, zeros", 1)), probes=("zeros",)
)


class UnchangedRunner:
    """Makes the calls of the unchanged target again."""

    is_program = False

    def __init__(self, again: Observed) -> None:
        self._again = again
        self.requests: list[ProofRequest] = []

    def observe(self, trial: Trial, request: ProofRequest) -> Observed:
        assert trial == Trial()
        self.requests.append(request)
        return self._again


def checked(again: Observed, after: Observed = BEFORE) -> tuple[ProofCheck, ProofRequest]:
    runner: Any = UnchangedRunner(again)
    check = Prover(runner, ran(""))._within_rounding(BEFORE, after, "folder")
    (request,) = runner.requests
    return check, request


def test_all_calls_that_return_were_compared() -> None:
    check, request = checked(Observed(BEFORE.entries, compared=2))
    assert (check.passed, check.detail) == (True, "2 calls within rounding")
    assert (request.against, request.values, request.probes) == ("folder", "", ("zeros",))


@pytest.mark.parametrize(
    ("again", "why"),
    [
        (Observed(BEFORE.entries, compared=1), "1 of 2 calls were compared"),
        (Observed(BEFORE.entries, compared=2, rounding=("base: value 0: it differs",)), "base: value 0: it differs"),
        (Observed(BEFORE.entries, compared=2, left_out="probes took longer"), "probes took longer"),
        (
            Observed((Entry("base", printed="now\n"), *BEFORE.entries[1:]), compared=2),
            "two runs of the unchanged target differ: base prints something else: now, nothing before",
        ),
    ],
)
def test_what_is_missing_or_differs_is_said(again: Observed, why: str) -> None:
    check, _ = checked(again)
    assert not check.passed
    assert check.detail.split(":")[0] == why.split(":")[0]


def test_a_call_from_which_only_one_program_returns_is_not_counted() -> None:
    """That it raises is a difference of its own."""
    after = Observed((Entry("base"), Entry("base, zeros"), Entry("base, zeros", 1, unended=5.0)))
    assert checked(Observed(BEFORE.entries, compared=1), after)[0].passed
    assert not checked(Observed(BEFORE.entries, compared=0), Observed())[0].passed
