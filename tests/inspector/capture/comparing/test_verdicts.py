"""The extra eager calls of a verdict, and its fallback without a reference."""

from typing import Any

import pytest
from msgspec.structs import replace

torch = pytest.importorskip("torch")

from ctrace.inspector.capture.calls.calling import CallResults  # noqa: E402
from ctrace.inspector.capture.comparing.arithmetic import Noisy, WatchedArithmetic  # noqa: E402
from ctrace.inspector.capture.comparing.eager import EagerError, EagerRun, Traces  # noqa: E402
from ctrace.inspector.capture.comparing.float64 import Float64  # noqa: E402
from ctrace.inspector.capture.comparing.judgement import Judgement  # noqa: E402
from ctrace.inspector.capture.comparing.precision import BFLOAT16, FLOAT32, FLOAT64, Precision  # noqa: E402
from ctrace.inspector.capture.comparing.verdicts import Court, EagerBudget  # noqa: E402
from ctrace.inspector.facts.scenario_facts import Rule  # noqa: E402

VALUES = torch.randn(2000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def run_of(values: Any, seconds: float = 0.001) -> EagerRun:
    return EagerRun(CallResults(values, [], []), None, Traces(), seconds)


def off(by: float, seed: int = 1) -> Any:
    return VALUES * (1 + by * torch.randn(2000, generator=torch.Generator().manual_seed(seed)).double())


class Calls:
    """Answers calls in other arithmetic, and counts them."""

    def __init__(self, reference: Any = VALUES, noisy: Any = None, *, reads: bool = False) -> None:
        self.made: list[str] = []
        self._answers = {Float64: reference, Noisy: noisy}
        self._reads = reads

    def __call__(self, arithmetic: WatchedArithmetic) -> EagerRun | None:
        self.made.append(type(arithmetic).__name__)
        if self._reads:
            arithmetic.read.append(True)
        answer = self._answers[type(arithmetic)]
        if answer is None:
            raise EagerError from RuntimeError("\"only32\" not implemented for 'Double'\nmore")
        return run_of(answer)


def court(
    calls: Calls,
    eager: Any,
    coarsest: Precision | None = FLOAT32,
    *,
    built: bool = True,
    room: bool = True,
    seconds: float = 0.001,
) -> Court:
    watched = WatchedArithmetic()
    watched.coarsest = coarsest
    return Court(run_of(eager, seconds), watched, calls, EagerBudget(), built=built, room=room)


def results(values: Any) -> CallResults:
    return run_of(values).results


def test_results_that_agree_cost_nothing():
    calls = Calls()
    verdict = court(calls, VALUES.float()).verdict(results(VALUES.float()))
    assert (verdict.judgement, verdict.rule, calls.made) == (Judgement.FINE, Rule.DIRECT, [])


def test_a_difference_that_eager_explains_takes_one_call():
    calls = Calls()
    verdict = court(calls, off(1e-3).float()).verdict(results(off(1e-3, 2).float()))
    assert (verdict.judgement, verdict.rule, calls.made) == (Judgement.FINE, Rule.REFERENCE, ["Float64"])
    assert verdict.eager_error == pytest.approx(verdict.compiled_error, rel=1)


def test_eager_is_rounded_otherwise_before_anything_is_called_wrong():
    calls = Calls(noisy=off(1e-3, 3).float())
    verdict = court(calls, VALUES.float()).verdict(results(off(1e-3).float()))
    assert (verdict.judgement, calls.made) == (Judgement.FINE, ["Float64", "Noisy"])
    calls = Calls(noisy=VALUES.float())
    verdict = court(calls, VALUES.float()).verdict(results(off(1e-3).float()))
    assert (verdict.judgement, calls.made) == (Judgement.WRONG, ["Float64", *["Noisy"] * 8])
    assert "differs in" in verdict.difference


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"calls": Calls(None)}, "the call fails in float64 (RuntimeError: \"only32\" not implemented for 'Double')"),
        ({"calls": Calls(reads=True)}, "Python reads different values in float64, so the call takes another path"),
        ({"coarsest": FLOAT64}, "the call computes in float64 already"),
        ({"coarsest": None}, "nothing in the call is rounded"),
        ({"room": False}, "there is no memory for a copy of the model in float64"),
        ({"seconds": 100.0}, "the call takes 100 s in eager, too long for extra calls"),
    ],
)
def test_without_a_reference_tolerances_decide(changes: dict[str, Any], reason: str):
    arguments = {"calls": Calls(), "eager": VALUES.float(), **changes}
    verdict = court(**arguments).verdict(results(off(1e-5).float()))
    assert (verdict.judgement, verdict.rule, verdict.no_reference) == (Judgement.FINE, Rule.TOLERANCE, reason)
    verdict = court(**arguments).verdict(results(VALUES.float() * 1.5))
    assert (verdict.judgement, verdict.rule, verdict.no_reference) == (Judgement.WRONG, Rule.TOLERANCE, reason)


def test_tolerances_are_those_of_the_coarsest_dtype():
    compiled = results(VALUES.float() * 1.01)
    assert court(Calls(None), VALUES.float(), FLOAT32).verdict(compiled).judgement is Judgement.WRONG
    assert court(Calls(None), VALUES.float(), BFLOAT16).verdict(compiled).judgement is Judgement.FINE


def test_the_worst_place_decides():
    eager = CallResults([off(1e-3).float(), VALUES.float()], [], [])
    compiled = CallResults([off(1e-3, 2).float(), VALUES.float() * 2], [], [])
    run = replace(run_of(None), results=eager)
    watched = WatchedArithmetic()
    watched.coarsest = FLOAT32
    calls = Calls([VALUES, VALUES], [off(1e-3, 3).float(), VALUES.float()])
    verdict = Court(run, watched, calls, EagerBudget(), built=True).verdict(compiled)
    assert verdict.judgement is Judgement.WRONG
    assert verdict.difference.startswith("the result[1] differs in")
