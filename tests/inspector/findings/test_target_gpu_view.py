"""What a run with `--target` shows about the target GPU."""

from msgspec.structs import replace

from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.target_gpu import Undecided
from ctrace.inspector.findings.target_gpu_view import (
    left_open,
    not_emitted,
    open_sentence,
    question_sentence,
    questions,
    several,
    target_of,
    target_sentence,
)
from ctrace.inspector.session.summary import next_steps
from tests.support import built
from tests.support.targeted import ATTENTION, EMITTED, H100, NOT_ALL, ON_T4


def test_nothing_of_a_run_without_a_target() -> None:
    for session in (Session(), built.SESSION):
        assert target_of(session) is None
        assert (target_sentence(session), open_sentence(session), not_emitted(session)) == ("", "", ())


def test_which_gpu() -> None:
    assert target_sentence(EMITTED) == (
        "Kernels generated for h100 (NVIDIA H100 80GB HBM3, sm_90). Nothing ran on that GPU; the program ran on cpu."
    )
    assert "Kernels were generated for h100" in next_steps(EMITTED)[0]


def test_graphs_without_code_are_named() -> None:
    assert [graph.id for graph in not_emitted(NOT_ALL)] == ["1/0"]
    assert "Graph 1/0 has no code" in target_sentence(NOT_ALL)


def test_says_first_that_no_graph_has_code() -> None:
    sentence = target_sentence(replace(NOT_ALL, graphs=not_emitted(NOT_ALL)))
    assert sentence.startswith("No kernels generated for ")
    assert "Graph 1/0 has no code" in sentence
    assert not_emitted(EMITTED) == ()
    assert next_steps(NOT_ALL) == ("Read the problems: no code was generated for h100 of graph 1/0.",)


def test_choices_by_kind() -> None:
    assert [(each.kind, len(each.choices)) for each in left_open(EMITTED)] == [
        ("padding", 1), ("autotuning", 1), ("configuration", 1),
    ]  # fmt: skip
    assert open_sentence(EMITTED).endswith("1 kernel has several configurations")
    assert left_open(ON_T4) == ()


def test_a_choice_of_configuration_is_counted_once() -> None:
    found = Undecided(EMITTED.built[0].stage, "configuration", ATTENTION, "both are compiled", graph="0/0")
    (*_, last) = left_open(replace(EMITTED, undecided=(found,)))
    assert last.choices == (found,)


def test_a_kind_that_is_not_known_here() -> None:
    found = replace(EMITTED.undecided[0], kind="folding")
    (only,) = left_open(replace(EMITTED, built=(), undecided=(found, found)))
    assert only.sentence == "2 choices of folding"


def test_several_configurations_of_which_none_is_chosen() -> None:
    assert list(several(EMITTED.built).values()) == [2]
    chosen = (replace(EMITTED.built[0], chosen=True), *EMITTED.built[1:])
    assert several(chosen) == {}


def test_questions_that_may_go_another_way_come_first() -> None:
    first, second = questions(EMITTED)
    assert (first.asked, second.as_target) == ("x.is_cuda", True)
    assert "may take another path" in question_sentence(first)
    assert question_sentence(second).endswith("as on the GPU")
    assert H100.target == "h100"
