"""Advice: which candidates are tried, how often, and which are shown."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from ctrace.inspector.diagnosis import advise, rules
from ctrace.inspector.diagnosis.advise import counts, diagnose, planned, trials
from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.diagnosis import Counts, Effect
from ctrace.inspector.facts.scenario_facts import EagerResult, ResultPart
from ctrace.inspector.facts.session import Coverage, Failure, FailurePhase, Graph, Scenario, Session
from ctrace.inspector.facts.trial import UNCHANGED, Trial, Tried
from tests.support.sessions import MODEL, bare_break

SOURCE = "import torch\n" + "\n".join(f"print({line})" for line in range(2, 12)) + "\n"


def printing(number: int) -> Session:
    """Return a session with this many prints, each a separate cause with a trial."""
    breaks = tuple(
        bare_break(
            line=line, source=f"print({line})", expression=f"print({line})", construct="print", fix="Take it out."
        )
        for line in range(2, 2 + number)
    )
    graphs = tuple(Graph(f"0/{each}", "forward", MODEL, 1, 2) for each in range(number + 1))
    return Session(graphs=graphs, breaks=breaks, coverage=Coverage(10, 8), listings={MODEL: SOURCE})


def tried(session: Session, *results: Counts | None) -> Session:
    done = [
        Tried(each.trial, result, 1.0) for each, result in zip(planned(session), results, strict=True) if each.trial
    ]
    return replace(session, trials=tuple(done))


def test_all_prints_are_tried_in_one_run() -> None:
    seen: list[Trial] = []

    def attempt(trial: Trial, _through_backend: bool) -> Session:
        seen.append(trial)
        return printing(0)

    (done,) = trials(printing(6), attempt)
    assert len(seen) == 1
    assert len(seen[0].edits) == 6
    assert done.counts == Counts(1, 0, 0, 80.0)


def test_at_most_three_are_tried_and_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(scene: DiagnosisScene) -> Iterator[Candidate]:
        for number, cause in enumerate(scene.causes):
            yield Candidate(f"try {number}", (cause.id,), Trial(settings=((f"option{number}", True),)))

    monkeypatch.setattr(rules, "RULES", (rule, rule))
    session = printing(6)
    done = list(trials(session, lambda _trial, _through_backend: session))
    assert len({each.trial for each in done}) == len(done) == advise.MOST_TRIALS == 3


def test_what_promises_most_is_tried_first() -> None:
    assert [each.worth for each in planned(printing(6))] == sorted(
        (each.worth for each in planned(printing(6))), reverse=True
    )


def test_a_run_that_fails_speaks_for_nothing() -> None:
    def fails(_trial: Trial, _through_backend: bool) -> Session:
        return Session(failure=Failure(FailurePhase.RUN, "ValueError", "no"))

    def refuses(_trial: Trial, _through_backend: bool) -> Session:
        raise TargetError("line 2 has changed", "")

    for attempt, error in ((fails, "ValueError: no"), (refuses, "line 2 has changed")):
        (done,) = trials(printing(1), attempt)
        assert (done.counts, done.error) == (None, error)


def test_advice_that_helped_comes_with_its_effect() -> None:
    session = tried(printing(1), Counts(1, 0, 0, 100.0))
    best = diagnose(session).advice[0]
    assert best.checked is True
    assert best.effect is not None
    assert (best.effect.before, best.effect.after) == (counts(session), Counts(1, 0, 0, 100.0))


def test_refuted_advice_is_not_shown() -> None:
    session = printing(1)
    text = planned(session)[0].text
    for result in (counts(session), Counts(2, 2, 0, 80.0), Counts(1, 0, 0, 10.0), None):
        advice = diagnose(tried(session, result)).advice
        assert text not in [each.text for each in advice]
        assert all(each.checked is not False for each in advice)


def returning(session: Session, *numbers: str, drew: bool = False) -> Session:
    part = ResultPart("output", numbers)
    return replace(session, scenarios=(Scenario("base", 2, eager_result=EagerResult(0, drew, (part,))),))


@pytest.mark.parametrize(
    ("after", "is_same"),
    [
        (("1.5", "2", "0.5"), True),
        (("1.500001", "2", "0.5"), True),  # float32 rounds
        (("1.501", "2", "0.5"), None),  # bfloat16 may
        (("3.5", "4", "0.5"), False),
        (("nan", "nan", "nan"), False),
        ((), None),
    ],
)
def test_an_edit_that_changes_results_is_no_advice(after: tuple[str, ...], is_same: bool | None) -> None:
    before = returning(printing(1), "1.5", "2", "0.5")

    def attempt(trial: Trial, _through_backend: bool) -> Session:
        return before if trial == UNCHANGED else returning(printing(0), *after)

    done = next(each for each in trials(before, attempt) if each.trial != UNCHANGED)
    assert done.same_results is is_same
    advice = diagnose(replace(before, trials=(done,))).advice
    text = planned(before)[0].text
    assert [(each.checked, each.same_results) for each in advice if each.text == text] == (
        [] if is_same is False else [(True, is_same)]
    )


def test_results_that_differ_from_run_to_run_refute_no_edit() -> None:
    """As those of a model with `Parameter(torch.Tensor(n))`, which is memory that nobody has set."""
    before = returning(printing(1), "1.5", "2", "0.5")
    runs = iter(range(9))

    def attempt(trial: Trial, _through_backend: bool) -> Session:
        return returning(printing(int(trial == UNCHANGED)), f"{7 * next(runs)}", "2", "0.5")

    unchanged, done = trials(before, attempt)
    assert (unchanged.trial, unchanged.same_results) == (UNCHANGED, False)
    assert done.same_results is None
    assert diagnose(replace(before, trials=(unchanged, done))).advice[0].checked


def test_results_of_models_that_draw_numbers_are_not_compared() -> None:
    before = returning(printing(1), "1.5", "2", "0.5", drew=True)
    (done,) = trials(before, lambda _trial, _through_backend: returning(printing(0), "7", "7", "7"))
    assert done.same_results is None


def test_advice_that_helped_goes_before_what_was_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    second = Trial(settings=(("option", True),))

    def rule(scene: DiagnosisScene) -> Iterator[Candidate]:
        yield Candidate("not tried", (scene.causes[0].id,))
        yield Candidate("tried", (scene.causes[1].id,), second)

    monkeypatch.setattr(rules, "RULES", (rule,))
    line = f"{MODEL}:2"
    session = replace(printing(2), trials=(Tried(second, Counts(2, 1, 0, 80.0), 1.0, (line,)),))
    assert [(each.text, each.checked) for each in diagnose(session).advice] == [("tried", True), ("not tried", None)]


def test_graphs_that_a_trial_saved_are_on_the_cause() -> None:
    found = diagnose(tried(printing(1), Counts(1, 0, 0, 80.0)))
    assert [each.cost.graphs for each in found.causes] == [1]
    assert [each.cost.graphs for each in diagnose(printing(1)).causes] == [None]


@pytest.mark.parametrize(
    ("before", "after", "helps"),
    [
        (Counts(2, 1, 0, 80.0), Counts(1, 0, 0, 80.0), True),
        (Counts(0, 1, 0, 0.0), Counts(1, 0, 0, 100.0), True),  # a function ran eagerly for the break
        (Counts(2, 1, 0, 60.0), Counts(3, 0, 0, 100.0), True),
        (Counts(6, 3, 0, 60.0), Counts(10, 3, 0, 90.0), False),
        (Counts(2, 1, 0, None), Counts(3, 0, 0, None), False),
        (Counts(2, 1, 0, 80.0), Counts(1, 0, 0, 40.0), False),
        (Counts(2, 1, 0, 80.0), Counts(1, 2, 0, 90.0), False),
        (Counts(2, 1, 0, 80.0), Counts(2, 1, 0, 80.0), False),
    ],
)
def test_what_helps(before: Counts, after: Counts, helps: bool) -> None:
    assert Effect(before, after).helps is helps


def test_what_needs_no_change_is_left_out_beside_what_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(scene: DiagnosisScene) -> Iterator[Candidate]:
        for number, cause in enumerate(scene.causes):
            if number:
                yield Candidate("Change this.", (cause.id,))
            else:
                yield Candidate("Leave this.", (cause.id,), is_no_change=True)

    monkeypatch.setattr(rules, "RULES", (rule,))
    assert [each.text for each in diagnose(printing(2)).advice] == ["Change this."]
    assert [each.text for each in diagnose(printing(1)).advice] == ["Leave this."]


def test_advice_without_a_place_begins_as_a_sentence() -> None:
    failure = Failure(FailurePhase.RUN, "InductorError", "LoweringException: no")
    (only,) = diagnose(Session(failure=failure)).advice
    assert only.text.startswith("The code raises InductorError when it is compiled. ")
