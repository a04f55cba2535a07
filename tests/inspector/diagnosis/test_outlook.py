"""Ten calls: what two calls save must not be lost at the limit, and what two calls hide must be said."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.diagnosis.advise import counts, diagnose, trials
from ctrace.inspector.diagnosis.explain_document import explain_document
from ctrace.inspector.facts.diagnosis import Counts
from ctrace.inspector.facts.findings import Cause, CauseKind, Recompile
from ctrace.inspector.facts.outcome import Failure, FailurePhase
from ctrace.inspector.facts.scenario_facts import ScenarioKind
from ctrace.inspector.facts.session import Compilation, Coverage, Graph, Scenario, Session, Verdict
from ctrace.inspector.facts.trial import UNCHANGED, LaterCalls, Trial, Tried
from ctrace.inspector.session.summary import sentence
from ctrace.reports.wording.diagnosis_wording import checked, later_calls
from tests.support import sessions
from tests.support.explained import explained

FILE = "/home/me/net.py"
TEXT = """import torch
class Net(torch.nn.Module):
    def forward(self, x):
        return x * self.n
"""
STORM = LaterCalls(10, 8, 7, limit_hit=True)
OPEN = Trial(settings=(("allow_unspec_int_on_nn_module", True),))


def run(*tried: Tried, expected: bool = False) -> Session:
    """Return a run that recompiled in its second call, with trials."""
    cause = Cause(CauseKind.ATTRIBUTE_VALUE, "self.n", "1", "2", 4, file=FILE)
    made = Recompile("0/1", "forward", FILE, 3, expected, (cause,), "", nearest="0/0", scenario="base", call=1)
    calls = tuple(Compilation(f"0/{n}", "forward", FILE, 3, scenario="base", call=n) for n in (0, 1))
    graphs = tuple(Graph(f"0/{n}", "forward", FILE, 3, 2) for n in (0, 1))
    return Session(
        recompiles=(made,),
        compilations=calls,
        graphs=graphs,
        coverage=Coverage(2, 2),
        listings={FILE: TEXT},
        trials=tried,
    )


def result(trial: Trial, recompiles: int, outlook: LaterCalls) -> Tried:
    return Tried(trial, Counts(1 + recompiles, 0, recompiles, 100.0), 1.0, calls=outlook.calls, outlook=outlook)


def test_later_calls_are_not_in_the_counts():
    session = run()
    later = Compilation("0/2", "forward", FILE, 3, scenario="base", call=5)
    again = Recompile("0/2", "forward", FILE, 3, False, (), "", scenario="base", call=5)
    grown = Session(
        compilations=(*session.compilations, later),
        recompiles=(*session.recompiles, again),
        graphs=(*session.graphs, Graph("0/2", "forward", FILE, 3, 2)),
        coverage=session.coverage,
    )
    assert counts(grown) == counts(session) == Counts(2, 0, 1, 100.0)


def test_a_change_that_only_delays_the_limit_is_refuted():
    delays = run(result(UNCHANGED, 1, LaterCalls(10, 3, 2, limit_hit=False)), result(OPEN, 0, STORM))
    assert not any(each.checked for each in diagnose(delays).advice)
    assert not any(each.checked for each in diagnose(run(result(OPEN, 0, STORM))).advice)


def test_a_change_that_ends_the_storm_is_shown_with_its_calls():
    (found,) = diagnose(run(result(UNCHANGED, 1, STORM), result(OPEN, 1, LaterCalls(10, 2, 1, limit_hit=False)))).advice
    assert (found.checked, found.calls) == (True, 10)
    assert checked(found) == "checked: recompilations in 10 calls 7 → 1"


def test_the_unchanged_model_is_called_first_where_a_second_call_recompiled():
    seen: list[Trial] = []

    def attempt(trial: Trial, _through_backend: bool) -> Session:
        seen.append(trial)
        return run()

    list(trials(run(), attempt))
    assert seen == [UNCHANGED, OPEN]
    seen.clear()
    list(trials(Session(), attempt))
    assert not seen, "nothing recompiled"


def test_two_calls_do_not_hide_the_storm():
    storm = run(result(UNCHANGED, 1, STORM))
    assert (
        later_calls(explain_document(storm)) == "10 calls recompile 7 times; the other numbers are those of two calls."
    )
    within = "Within 10 calls, the recompile limit is hit, and calls fall back to eager."
    partial = replace(storm, breaks=sessions.PARTIAL.breaks)
    assert (storm.verdict, partial.verdict) == (Verdict.COMPILED, Verdict.PARTIAL)
    assert all(within in sentence(each) for each in (storm, partial))
    assert explained(storm)["outlook"] == {"calls": 10, "graphs": 8, "recompiles": 7, "limit_hit": True}
    assert explained(run())["outlook"] is None
    assert not later_calls(explain_document(run(result(UNCHANGED, 1, LaterCalls(10, 2, 1, limit_hit=False)))))


def test_expected_recompilations_get_trials_only_where_a_repeated_call_has_them() -> None:
    def attempt(_trial: Trial, _through_backend: bool) -> Session:
        return run()

    repeated = run(expected=True)
    (made,) = repeated.recompiles
    cause = Cause(CauseKind.SIZE, "x.size(0)", "2", "4", 3, file=FILE, expected="The first change", is_open=True)
    once = replace(made, causes=(cause,), why_expected="The first change", scenario="other", call=0)
    other = replace(repeated, recompiles=(once,))
    assert not list(trials(other, attempt))
    assert list(trials(replace(other, recompiles=(replace(once, expected=False, why_expected=""),)), attempt))
    assert list(trials(repeated, attempt))


def raising(session: Session, message: str, calls: int = 4) -> Session:
    """Return a run that ended with an exception in its last call."""
    failure = Failure(FailurePhase.RUN, "RuntimeError", message)
    return replace(session, failure=failure, calls=calls, scenarios=(Scenario("base", kind=ScenarioKind.BASE),))


def test_a_model_that_raises_in_a_later_call_has_an_outlook_until_then():
    """As where each fourth call needs gradients that the inputs do not have: no change of the model ends that."""
    three = tuple(replace(run().recompiles[0], compilation=f"0/{n}") for n in (1, 2, 3))
    storm = raising(replace(run(), recompiles=three), "no grad_fn")

    def attempt(trial: Trial, _through_backend: bool) -> Session:
        return storm if trial == UNCHANGED else raising(replace(run(), recompiles=()), "no grad_fn")

    done = tuple(trials(run(), attempt))
    assert done[0].outlook == LaterCalls(4, 2, 3, limit_hit=False)
    known = run(*done)
    assert later_calls(explain_document(known)).endswith(" Call 4 raises RuntimeError: no grad_fn.")
    assert diagnose(known).advice[0].checked
    assert not any(each.settled for each in done)


@pytest.mark.parametrize(("message", "calls"), [("something else", 4), ("no grad_fn", 3), ("no grad_fn", 2)])
def test_a_change_that_raises_otherwise_is_refuted(message: str, calls: int):
    def attempt(trial: Trial, _through_backend: bool) -> Session:
        return raising(run(), "no grad_fn") if trial == UNCHANGED else raising(run(), message, calls)

    unchanged, *others = trials(run(), attempt)
    assert unchanged.outlook is not None
    assert all(each.counts is None and each.outlook is None for each in others)
    assert others


def test_a_model_that_raises_in_a_counted_call_has_no_outlook():
    first, *_ = trials(run(), lambda _trial, _backend: raising(run(), "no", 2))
    assert first.outlook is None
    assert first.error == "RuntimeError: no"
