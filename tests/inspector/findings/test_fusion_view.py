"""Graph parts, names of nodes, and the order of rounds."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.fusion_facts import FusionCandidate, FusionRound, Score
from ctrace.inspector.findings.fusion_view import UserNames, ending, ops_lowered, parts, ranked, unranked
from tests.support.fusions import EAGER, EXP_SUM, FUSED, OLD, SEVERAL, SOFTMAX, layers
from tests.support.sessions import MODEL


def test_parts_are_those_of_a_graph_and_a_stage():
    assert parts(SEVERAL) == SEVERAL.fusions
    assert parts(SEVERAL, "0/1") == (OLD,)
    assert parts(SEVERAL, stage="Forward") == (SOFTMAX,)
    assert parts(EAGER) == ()


@pytest.mark.parametrize(
    ("graph", "stage", "what", "todo"),
    [
        ("0/9", None, "--graph 0/9: Inductor's scheduler has no such graph", "did you mean 0/1?"),
        ("x", None, "--graph x: Inductor's scheduler has no such graph", "there are: 0/0, 0/1, 1/0"),
        (None, "backwrd", "--stage backwrd: this run has no such part", "did you mean backward?"),
        ("0/0", "backward", "--stage backward: graph 0/0 has no such part", "there are: forward"),
    ],
)
def test_a_part_that_is_not_there(graph: str | None, stage: str | None, what: str, todo: str):
    with pytest.raises(TargetError) as raised:
        parts(SEVERAL, graph, stage)
    assert (raised.value.what, raised.value.todo) == (what, todo)


def test_a_run_without_inductor_has_no_graph():
    with pytest.raises(TargetError) as raised:
        parts(EAGER, "0/0")
    assert raised.value.todo == "there are: none"


def test_a_node_of_any_round_has_the_ops_and_lines_of_what_it_holds():
    names = UserNames(SOFTMAX)
    assert names.of("op1_op2").ops == EXP_SUM.ops == ("aten.exp", "aten.sum")
    between = names.of("op3_op4")
    assert between.ops == ("aten.div", "aten.add", "aten.mul")
    assert between.lines == (f"{MODEL}:11", f"{MODEL}:12")
    assert between.operations == 2
    assert UserNames(OLD).of("op0_op1").ops == ()


def test_ops_before_lowering_are_not_known_where_no_graph_was_printed():
    assert ops_lowered(FUSED, SOFTMAX) is None


@pytest.mark.parametrize(
    ("rounds", "why"),
    [
        ((FusionRound(3, 2), FusionRound(2, 2)), "nothing more could be fused"),
        ((FusionRound(2, 1), FusionRound(1, 1, reorder=True)), "one node is left"),
        (tuple(FusionRound(40 - each, 39 - each) for each in range(10)), "torch stops after 10 rounds"),
        ((FusionRound(3, 2),), ""),
        ((), ""),
    ],
)
def test_why_rounds_end(rounds: tuple[FusionRound, ...], why: str):
    assert ending(replace(OLD, rounds=rounds)) == why


def _round(*scores: Score, fused: tuple[tuple[str, str], ...] = ()) -> FusionRound:
    candidates = tuple(
        FusionCandidate(f"op{2 * each}", f"op{2 * each + 1}", score) for each, score in enumerate(scores)
    )
    return FusionRound(9, 8, fused=fused, candidates=candidates)


@pytest.mark.parametrize(
    ("first", "second", "by"),
    [
        (Score(2, 1, 8, 0, -1), Score(1, 1, 800, 0, -1), "template"),
        (Score(2, 1, 8, 0, -9), Score(2, 0, 80, 0, -1), "kind"),
        (Score(2, 0, 800, 0, -9), Score(2, 1, 8, 0, -1), "shared"),
        (Score(2, 1, 80, 0, -9), Score(2, 1, 8, 0, -1), "shared"),
        (Score(2, 1, 8, 5, -9), Score(2, 1, 8, 0, -1), "overlap"),
        (Score(2, 1, 8, 5, -1), Score(2, 1, 8, 5, -9), "proximity"),
        (Score(2, 1, 8, 5, -1), Score(2, 1, 8, 5, -1), ""),
    ],
)
def test_what_puts_a_pair_before_the_next(first: Score, second: Score, by: str):
    one, other = ranked(_round(first, second))
    assert one.deciding == by
    assert (other.deciding, other.order) == ("", "")


def test_a_fused_pair_may_have_grown_since_it_was_a_candidate():
    score = Score(2, 1, 8, 0, -1)
    candidates = (
        FusionCandidate("op0", "op1", score),
        FusionCandidate("op1", "op2", score),
        FusionCandidate("op0", "op2", score),
    )
    fused = (("op0", "op1"), ("op0_op1", "op2"))
    found = ranked(FusionRound(4, 2, fused=fused, candidates=(*candidates, FusionCandidate("op2", "op3", score))))
    assert [each.fused for each in found] == [("op0", "op1"), ("op0_op1", "op2"), None, None]
    assert [each.is_joined for each in found] == [False, False, True, False]


def test_fused_pairs_without_a_candidate():
    assert unranked(OLD.rounds[0]) == (("op0", "op1"),)
    assert unranked(SOFTMAX.rounds[0]) == ()
    assert ranked(layers(1).rounds[0]) == ()
