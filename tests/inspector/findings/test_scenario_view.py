"""What scenarios showed."""

from msgspec.structs import replace

from ctrace.inspector.facts.findings import Limit, Recompile
from ctrace.inspector.facts.outcome import Failure, FailurePhase
from ctrace.inspector.facts.scenario_facts import ScenarioKind
from ctrace.inspector.facts.session import Coverage, Environment, Scenario, Session
from ctrace.inspector.findings.scenario_view import not_compared, provoked, why_no_coverage
from tests.support import sessions
from tests.support.helpers import MODEL


def test_each_provoked_scenario_has_an_answer():
    assert {each.scenario.name: each.answer for each in provoked(sessions.DANGEROUS)} == {
        "dim0=1": "recompiled once: x.size(0) became 0 or 1",
        "eval": "no recompilation",
        "no_grad": "runs eagerly: none of its ops are in a graph",
        "dtype=float64": "fails in eager too: RuntimeError: another dtype",
        "dim1=8": "fails only when compiled: ValueError: <b>no|such",
    }


def test_a_hit_limit_is_why_it_runs_eagerly():
    session = replace(sessions.DANGEROUS, limit=Limit(hit=True))
    answers = {each.scenario.name: each.answer for each in provoked(session)}
    assert answers["no_grad"] == "runs eagerly: the recompile limit was hit"


def test_recompiles_are_counted_and_marked_as_expected():
    scenario = Scenario("eval", 2, Coverage(2, 2), ScenarioKind.PROVOKED)
    made = tuple(Recompile(f"0/{n}", "f", MODEL, 1, True, (), scenario="eval", call=0) for n in (1, 2))
    (only,) = provoked(Session(scenarios=(scenario,), recompiles=made))
    assert (only.recompiles, only.answer) == (2, "recompiled twice (expected): torch logs no reason")


def test_what_was_not_compared_is_grouped_by_reason():
    assert not_compared(sessions.DANGEROUS) == {"the model gives different results each time": ["clock"]}


def test_a_scenario_whose_first_call_was_compared_says_so():
    partly = Scenario("base", 2, compared=1, not_compared="the model cannot be copied for an eager run")
    found = not_compared(Session(scenarios=(partly,)))
    assert found == {"the model cannot be copied for an eager run": ["base (1 of 2 calls compared)"]}


def test_a_share_of_ops_that_was_not_measured_has_a_reason():
    own = Environment(ctrace="1.0")
    refused = Scenario("base", 2, not_compared="the model cannot be called in eager")
    assert why_no_coverage(Session()) == "torch alone wrote this log"
    assert why_no_coverage(Session(environment=own)) == "a program gets no eager call"
    assert why_no_coverage(Session(environment=own, scenarios=(refused,))) == "the model cannot be called in eager"
    failed = Session(environment=own, failure=Failure(FailurePhase.RUN, "ValueError", "no"), scenarios=(refused,))
    assert why_no_coverage(failed) == "the run ended early"
    assert not why_no_coverage(Session(coverage=Coverage(2, 2)))
