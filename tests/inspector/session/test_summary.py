"""The first answers: what happened in one sentence, and what to do next."""

from typing import Any

import pytest
from msgspec import structs

from ctrace.inspector.facts.findings import BreakKind, Cause, CauseKind, Cost, Limit, Recompile, Skip
from ctrace.inspector.facts.passes import Attention, WhyNotFused
from ctrace.inspector.facts.session import (
    Compilation,
    Coverage,
    Environment,
    Failure,
    FailurePhase,
    Graph,
    Scenario,
    Session,
)
from ctrace.inspector.session.summary import next_steps, sentence
from tests.support.helpers import MODEL
from tests.support.sessions import bare_break

GRAPH = Graph("0/0", "forward", MODEL, 8, 2)
ITEM = bare_break(expression="x.item()", cost=Cost(2, 1))
PRINT = bare_break(line=14, fix="Take it out.", cost=Cost(5, 1))
KEPT = bare_break(line=20, kind=BreakKind.DISABLED, fix="Remove it.")
LEFT = Skip("helper", MODEL, 31, "`helper` is a generator.", rule="generator", fix="Return a list.")


def partial(**parts: Any) -> Session:
    return Session(graphs=(GRAPH,), **parts)


class TestSentence:
    @pytest.mark.parametrize(
        ("coverage", "expected"),
        [
            (Coverage(), "Fully compiled: 1 graph, no graph breaks, nothing falls back to eager."),
            (Coverage(5, 5), "Fully compiled: 1 graph, no graph breaks, nothing falls back to eager."),
            (Coverage(5, 4), "4 of 5 ops compiled (80%): 1 graph, no graph breaks; 1 op runs eagerly."),
            (Coverage(5, 2), "2 of 5 ops compiled (40%): 1 graph, no graph breaks; 3 ops run eagerly."),
        ],
    )
    def test_without_breaks(self, coverage: Coverage, expected: str):
        assert sentence(Session(graphs=(GRAPH,), coverage=coverage)) == expected

    @pytest.mark.parametrize(
        ("coverage", "part"),
        [
            (Coverage(), "Partly compiled"),
            (Coverage(8), "Partly compiled"),
            (Coverage(8, 7), "7 of 8 ops compiled (87%)"),
            (Coverage(8, 0), "0 of 8 ops compiled (0%)"),
            (Coverage(0, 0), "0 of 0 ops compiled (0%)"),
        ],
    )
    def test_a_part_of_it(self, coverage: Coverage, part: str):
        found = sentence(partial(breaks=(ITEM,), coverage=coverage))
        assert found == f"{part}: 1 graph break and 1 graph."

    def test_everything_that_kept_it_from_all(self):
        found = sentence(partial(breaks=(ITEM, KEPT), skips=(LEFT,), limit=Limit(hit=True)))
        parts = "1 graph break, 1 graph, 1 disabled call, 1 function runs eagerly, and the recompile limit was hit"
        assert f"{parts}, so later calls run eagerly" in found

    def test_breaks_split_a_model_only_where_nothing_else_adds_graphs(self):
        two = Session(graphs=(GRAPH, GRAPH), breaks=(ITEM,), scenarios=(Scenario("base", 2),))
        assert sentence(two) == "Partly compiled: 1 graph break splits the model into 2 graphs."
        again = Recompile("0/1", "forward", MODEL, 8, expected=False, causes=())
        assert "splits" not in sentence(structs.replace(two, recompiles=(again,)))
        assert "splits" not in sentence(structs.replace(two, scenarios=()))

    def test_the_worst_of_several_breaks(self):
        assert sentence(partial(breaks=(ITEM, PRINT))).endswith(" Line 14 (model.py:14) costs most: 5 ops run eagerly.")
        worse = structs.replace(ITEM, cost=Cost(1), line=3)
        both = partial(breaks=(worse, structs.replace(KEPT, cost=Cost(0))))
        assert sentence(both).endswith(" `x.item()` (model.py:3) costs most: 1 op runs eagerly.")

    def test_no_break_is_the_worst_where_costs_are_none_or_not_known(self):
        for cost in (Cost(), Cost(0, 3)):
            breaks = tuple(structs.replace(each, cost=cost) for each in (ITEM, PRINT))
            assert "costs most" not in sentence(partial(breaks=breaks))

    @pytest.mark.parametrize(
        ("session", "why"),
        [
            (Session(), "no compiled function was called."),
            (Session(environment=Environment(switched_off="X=1")), "torch.compile is switched off by X=1."),
            (
                Session(compilations=(Compilation("0/0", "f", MODEL, 8),)),
                "the compiled code contains no tensor operations.",
            ),
            (Session(skips=(LEFT,)), "all of helper runs eagerly. `helper` is a generator."),
            (Session(skips=(structs.replace(LEFT, break_index=0),)), "all of helper runs eagerly."),
        ],
    )
    def test_nothing_at_all(self, session: Session, why: str):
        assert sentence(session) == f"Nothing was compiled: {why}"


class TestNextSteps:
    def test_the_costliest_goes_first_and_says_where(self):
        session = partial(breaks=(ITEM, PRINT), skips=(LEFT,))
        assert next_steps(session) == (
            "model.py:14: Take it out.",
            "model.py:10: Keep the value a tensor.",
            "Return a list.",
        )

    def test_three_are_enough(self):
        breaks = tuple(bare_break(line=line) for line in range(5))
        assert len(next_steps(partial(breaks=breaks, skips=(LEFT,)))) == 3

    def test_what_its_author_disabled_stays_unless_it_costs_a_function(self):
        assert next_steps(partial(breaks=(KEPT,))) == ()
        caused = structs.replace(LEFT, break_index=0)
        assert next_steps(partial(breaks=(KEPT,), skips=(caused,))) == ("model.py:20: Remove it.",)

    def test_a_wrong_target_goes_before_all(self):
        failure = Failure(FailurePhase.TARGET, "TargetError", "no such file", todo="check the name")
        assert next_steps(partial(breaks=(ITEM,), failure=failure))[0] == "check the name"

    def test_expected_recompiles_need_nothing(self):
        cause = Cause(CauseKind.SIZE, "x.size(0)", "4", "8", fix="Mark it dynamic.")
        recompile = Recompile("0/1", "forward", MODEL, 8, expected=True, causes=(cause,))
        session = partial(recompiles=(recompile,))
        assert next_steps(session) == ("Nothing to fix.",)
        assert next_steps(structs.replace(session, limit=Limit(hit=True))) == ("Mark it dynamic.",)
        unexpected = structs.replace(recompile, expected=False)
        assert next_steps(partial(recompiles=(unexpected,))) == ("Mark it dynamic.",)

    def test_a_healthy_model_needs_nothing(self):
        emitted = Environment(backend="inductor")
        assert next_steps(partial(environment=emitted))[0].startswith("Nothing to fix. Kernels were generated")
        assert next_steps(partial(environment=structs.replace(emitted, built=True))) == ("Nothing to fix.",)


class TestAttention:
    """The first sentence and the advice about attention."""

    def test_one_that_is_not_fused_is_a_step(self):
        missed = Attention(
            None,
            (),
            (),
            "",
            "",
            (),
            0,
            lines=(f"{MODEL}:8",),
            why=WhyNotFused("no_maximum", ()),
            graph="0/0",
            stage="inference",
        )
        (step,) = next_steps(Session(graphs=(GRAPH,), attention=(missed, missed)))
        assert step.startswith("model.py:8: Use ")

    def test_what_may_be_none_is_no_step(self):
        router = Attention(
            None,
            (),
            (),
            "",
            "",
            (),
            0,
            lines=(f"{MODEL}:8",),
            certain=False,
            why=WhyNotFused("rank", (), rank=2),
            graph="0/0",
            stage="inference",
        )
        (step,) = next_steps(Session(graphs=(GRAPH,), attention=(router,)))
        assert step.startswith("Nothing to fix")

    def test_wrong_results_come_first(self):
        wrong = Attention(
            None,
            (),
            (),
            "",
            "",
            (),
            0,
            lines=(f"{MODEL}:8",),
            matched="_sfdp_pattern_1",
            trial="shape",
            graph="0/0",
            stage="inference",
        )
        session = Session(graphs=(GRAPH,), attention=(wrong,))
        assert "The attention at model.py:8 returns wrong results when compiled." in sentence(session)
        assert next_steps(session)[0].startswith("model.py:8: ")


def test_a_model_without_tensor_operations_has_nothing_to_compile() -> None:
    run = Session(coverage=Coverage(0, 0))
    assert next_steps(run) == (
        "Nothing to compile here: with these inputs and in this mode, it runs no tensor operation.",
    )
    assert next_steps(Session(coverage=Coverage(4, 0))) == ()
