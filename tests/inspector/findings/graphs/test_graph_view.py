"""Queries on printed graphs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.graph_facts import Graphs, GraphStage, Printed
from ctrace.inspector.facts.kernel_facts import Stage as Part
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.graph_lines import lines, of_line
from ctrace.inspector.findings.graphs.graph_summary import Overview, Shares, notes, overview
from ctrace.inspector.findings.graphs.graph_view import CompiledGraph, compiled, only_one
from tests.support.helpers import Log, fuzzing
from tests.support.printed import HOSTILE, NONE, session_of, trained

LABELS = [
    "dynamo", "before_pre_grad", "pre_grad", "joint", "forward", "backward", "before_post_grad", "post_grad",
    "before_post_grad_backward", "post_grad_backward",
]  # fmt: skip
UNTRAINED = [
    "dynamo", "before_pre_grad", "pre_grad", "inference", "before_joint", "after_joint", "before_post_grad", "post_grad",
]  # fmt: skip


def _overview(graph: str = "0/0") -> Overview:
    session = trained()
    (each,) = compiled(session, graph)
    return overview(session, each)


def _text(*lines_: str, inputs: str = "a, b") -> str:
    body = "\n".join(f"        {line}" for line in lines_)
    return f"class G(torch.nn.Module):\n    def forward(self, {inputs}):\n{body}\n"


class TestStages:
    def test_both_parts_are_told_apart(self):
        assert [each.labels() for each in compiled(trained())] == [LABELS, UNTRAINED]

    def test_a_backward_that_came_first_is_known_by_its_inputs(self):
        forward = Printed(GraphStage.FORWARD, _text("return a", inputs="primals_1, primals_2"))
        backward = Printed(GraphStage.BACKWARD, _text("return a", inputs="primals_1, tangents_1"))
        late = [replace(each, stage=GraphStage.POST_GRAD) for each in (backward, forward)]
        (each,) = compiled(session_of(forward, backward, *late))
        assert [stage.part for stage in each.stages[2:]] == [Part.BACKWARD, Part.FORWARD]
        assert each.labels()[2:] == ["post_grad_backward", "post_grad"]

    def test_what_cannot_be_told_apart_has_a_number(self):
        printed = [Printed(GraphStage.POST_GRAD, _text("return a")), Printed(GraphStage.POST_GRAD, _text("return b"))]
        (each,) = compiled(session_of(*printed))
        assert each.labels() == ["post_grad", "post_grad_2"]
        assert [stage.part for stage in each.stages] == [None, None]

    @pytest.mark.parametrize(("label", "todo"), [("forwrd", "did you mean forward?"), ("zzz", "there are: dynamo,")])
    def test_an_unknown_stage(self, label: str, todo: str):
        with pytest.raises(TargetError) as caught:
            _overview().each.stage(label)
        assert caught.value.todo.startswith(todo)

    def test_dashes_and_capitals_are_as_good(self):
        assert _overview().each.stage("Post-Grad").label == "post_grad"

    def test_an_unknown_graph(self):
        with pytest.raises(TargetError, match="no such graph") as caught:
            compiled(trained(), "0/1")
        assert caught.value.todo.startswith("did you mean ")

    def test_several_graphs_have_to_be_chosen_from(self):
        with pytest.raises(TargetError, match="needs one graph, and this run has 2") as caught:
            only_one(trained(), None, "--stage")
        assert caught.value.todo == "add --graph with one of: 0/0, 1/0"
        with pytest.raises(TargetError, match="none"):
            only_one(NONE, None, "--stage")


class TestAttempts:
    def test_the_last_attempt_counts_even_where_no_start_says_that_it_began(self):
        log = Log().started().frame("0/0")
        for attempt, name in ((0, "c"), (1, "d")):
            text = _text(f"{name} = a + b", f"return ({name},)")
            log.record("dynamo_output_graph", {"sizes": {}}, at="0/0", attempt=attempt, payload=text)
            log.record("aot_joint_graph", {}, at="0/0", attempt=attempt, payload=text)
        session = log.metrics("0/0").ended().session()
        (each,) = compiled(session)
        assert each.labels() == ["dynamo", "joint"]
        assert all(stage.graph and stage.graph.node("d") for stage in each.stages)

    def test_what_an_earlier_attempt_said_of_aliases_does_not_count(self):
        log = Log().started().frame("0/0").artifact("aot_forward_graph_fw_metadata", "ViewAndMutationMeta()", at="0/0")
        log.record("dynamo_output_graph", {}, at="0/0", attempt=1, payload=_text("return (a,)"))
        assert log.session().printed["0/0"].metadata == ""


class TestOverview:
    def test_rows(self):
        rows = {row.staged.label: row for row in _overview().rows}
        assert (rows["dynamo"].nodes, rows["dynamo"].ops) == (14, 9)
        assert rows["pre_grad"].same_as == "dynamo"
        assert rows["post_grad"].same_as == "before_post_grad"
        assert dict(rows["forward"].counts)["aten.mm"] == 1

    def test_inputs_have_the_names_of_the_user(self):
        names = {each.name: each.role for each in _overview().inputs}
        assert names == {"x.size(0)": "size", "x": "input", "self.calls": "buffer", "self.query.weight": "parameter"}

    def test_what_is_changed_and_shared(self):
        seen = _overview()
        assert seen.changed is not None
        assert [(each.name, each.data) for each in seen.changed] == [("self.calls", True)]
        assert [(each.shares, each.base) for each in seen.results] == [
            (Shares.NOTHING, ""),
            (Shares.VIEW_OF_INPUT, "x"),
            (Shares.INPUT, "self.calls"),
        ]

    def test_what_is_kept(self):
        seen = _overview().kept
        assert seen is not None
        made = {each.node.name: each.memory.bytes or 0 for each in seen.saved if each.is_made and each.memory}
        assert made == {"bmm_1": 2 * 8 * 16 * 4, "div_1": 2 * 8 * 8 * 4}
        assert (seen.made, seen.symbols) == (sum(made.values()), ("s77",))
        assert {each.input.name for each in seen.saved if each.input} == {"x", "x.size(0)"}

    def test_views_are_the_memory_that_they_lie_in(self):
        lines_ = (
            'c: "f32[4, 2][2, 1]cpu" = torch.ops.aten.mul.Tensor(a, b)',
            'd: "f32[2, 4][1, 2]cpu" = torch.ops.aten.permute.default(c, [1, 0])',
            'e: "f32[8][1]cpu" = torch.ops.aten.view.default(c, [8])',
            "return (a, d, e)",
        )
        backward = Printed(GraphStage.BACKWARD, _text("return d", inputs="d, e"))
        (each,) = compiled(session_of(Printed(GraphStage.FORWARD, _text(*lines_)), backward))
        seen = overview(session_of(), each).kept
        assert seen is not None
        assert [(one.node.name, one.root.name) for one in seen.saved] == [("d", "c"), ("e", "c")]
        assert seen.made == 32

    def test_what_is_computed_again(self):
        seen = _overview().recomputed
        assert seen is not None
        assert "erf" in [node.name for node in seen.nodes]
        assert seen.views > 0

    def test_without_a_backward_nothing_is_kept(self):
        session = session_of(Printed(GraphStage.DYNAMO, _text("c = a + b", "return c")))
        (each,) = compiled(session)
        seen = overview(session, each)
        assert (seen.kept, seen.recomputed, seen.changed) == (None, None, None)

    def test_what_could_not_be_read_is_said(self):
        text = _text("c = a + b", "d = <odd>", "return (c,)")
        (each,) = compiled(session_of(Printed(GraphStage.DYNAMO, text, {"c": ("2",), "gone": ()})))
        assert list(notes(each.stages[0])) == [
            "dynamo: 1 of 5 nodes could not be read",
            "dynamo: 1 nodes that torch lists are not in its text: gone",
        ]

    def test_sizes_that_disagree_are_said(self):
        text = _text('c: "f32[3][1]cpu" = a + b', "return (c,)")
        (each,) = compiled(session_of(Printed(GraphStage.DYNAMO, text, {"c": ("2",)})))
        assert list(notes(each.stages[0])) == ["dynamo: 1 nodes that torch lists have other sizes in its text: c"]

    def test_hostile_text(self):
        (each,) = compiled(HOSTILE)
        assert any("could not be read" in note for note in overview(HOSTILE, each).notes)


class TestLines:
    def test_a_line_at_every_stage(self):
        found = of_line(trained(), "trained.py:17", "0/0")
        assert [one.staged.label for one in found] == LABELS
        assert [node.name for node in found[0].nodes] == ["softmax", "mixed"]

    @pytest.mark.parametrize("place", ["17", "trained.py:17", "project/trained.py:17"])
    def test_ways_to_name_a_line(self, place: str):
        assert of_line(trained(), place, "0/0")

    @pytest.mark.parametrize("place", ["", ":", "ained.py:18", "trained.py", "trained.py:999", "x:y"])
    def test_no_such_line(self, place: str):
        assert of_line(trained(), place, None) == ()

    def test_all_lines(self):
        assert {at.line for at in lines(trained(), None)} == {15, 16, 17, 18, 23}


@fuzzing
@given(
    st.lists(
        st.tuples(st.sampled_from(list(GraphStage)), st.integers(0, 19), st.integers(0, 3000), st.text(max_size=4))
    ),
    st.text(),
)
def test_any_damage_gives_an_overview(parts: list[tuple[GraphStage, int, int, str]], metadata: str) -> None:
    texts = [each.text for graphs in trained().printed.values() for each in graphs.printed]
    printed = []
    for stage, number, place, new in parts:
        text = texts[number % len(texts)]
        printed.append(Printed(stage, text[: place % len(text)] + new + text[place % len(text) + len(new) :]))
    session = session_of(*printed, metadata=f"ViewAndMutationMeta({metadata}")
    for each in compiled(session):
        assert isinstance(overview(session, each), Overview)


def test_a_compilation_without_graphs_is_not_listed() -> None:
    session: Session = replace(NONE, printed={"9/9": Graphs()})
    found: tuple[CompiledGraph, ...] = compiled(session)
    assert found == ()
