"""What is asked of printed graphs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrace.inspector.errors import TargetError
from ctrace.inspector.generated import Stage as Part
from ctrace.inspector.graphs.aliases import Shares
from ctrace.inspector.model import Session
from ctrace.inspector.printed import Graphs, GraphStage, Printed
from ctrace.inspector.views.graphlines import lines, of_line
from ctrace.inspector.views.graphs import Compiled, compiled, only_one
from ctrace.inspector.views.graphsummary import Overview, notes, overview
from tests.helpers import fuzzing
from tests.printed import HOSTILE, NONE, session_of, trained

LABELS = [
    "dynamo", "before_pre_grad", "pre_grad", "joint", "forward", "backward", "before_post_grad", "post_grad",
    "before_post_grad_backward", "post_grad_backward",
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
        assert [each.labels() for each in compiled(trained())] == [LABELS, LABELS]

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
            compiled(trained(), "0/2")
        assert caught.value.todo.startswith("did you mean 0/")

    def test_several_graphs_have_to_be_chosen_from(self):
        with pytest.raises(TargetError, match="needs one graph, and this run has 2") as caught:
            only_one(trained(), None, "--stage")
        assert caught.value.todo == "add --graph with one of: 0/0, 0/1"
        with pytest.raises(TargetError, match="none"):
            only_one(NONE, None, "--stage")


class TestOverview:
    def test_rows(self):
        rows = {row.staged.label: row for row in _overview().rows}
        assert (rows["dynamo"].nodes, rows["dynamo"].ops) == (20, 11)
        assert rows["pre_grad"].same_as == "dynamo"
        assert rows["post_grad"].same_as == "before_post_grad"
        assert dict(rows["forward"].counts)["aten.addmm"] == 2

    def test_inputs_have_the_names_of_the_user(self):
        names = {each.name: each.role for each in _overview().inputs}
        assert names["x"] == "input"
        assert names["self.q.weight"] == "parameter"
        assert names["self.calls"] == "buffer"

    def test_a_symbolic_size_is_named(self):
        sizes = [each.name for each in _overview("0/1").inputs if each.role == "size"]
        assert sizes == ["x.size(0)"]

    def test_what_is_changed_and_shared(self):
        told = _overview()
        assert told.changed is not None
        assert [(each.name, each.data) for each in told.changed] == [("self.calls", True)]
        assert [(each.shares, each.base) for each in told.results] == [
            (Shares.NOTHING, ""),
            (Shares.VIEW_OF_INPUT, "x"),
            (Shares.INPUT, "self.calls"),
        ]

    def test_what_is_kept(self):
        told = _overview().kept
        assert told is not None
        made = {each.node.name: each for each in told.saved if each.is_made}
        assert told.made == sum(each.memory.bytes or 0 for each in made.values() if each.memory)
        assert made["permute_4"].root.name == "addmm"
        assert {each.input.name for each in told.saved if each.input} == {"x", "self.norm.weight", "self.norm.bias"}

    def test_sizes_that_depend(self):
        told = _overview("0/1").kept
        assert told is not None
        assert told.symbols == ("s77",)
        small = _overview().kept
        assert small is not None
        assert (told.made or 0) * 2 == (small.made or 0) * 3  # batches of 3 and 2

    def test_what_is_computed_again(self):
        told = _overview().again
        assert told is not None
        assert "erf" in [node.name for node in told.nodes]
        assert told.views == 3

    def test_without_a_backward_nothing_is_kept(self):
        session = session_of(Printed(GraphStage.DYNAMO, _text("c = a + b", "return c")))
        (each,) = compiled(session)
        told = overview(session, each)
        assert (told.kept, told.again, told.changed) == (None, None, None)

    def test_what_could_not_be_read_is_said(self):
        text = _text("c = a + b", "d = <odd>", "return (c,)")
        (each,) = compiled(session_of(Printed(GraphStage.DYNAMO, text, {"c": ("2",), "gone": ()})))
        assert list(notes(each)) == [
            "dynamo: 1 of 5 nodes could not be read",
            "dynamo: 1 nodes that torch lists are not in its text: gone",
        ]

    def test_sizes_that_disagree_are_said(self):
        text = _text('c: "f32[3][1]cpu" = a + b', "return (c,)")
        (each,) = compiled(session_of(Printed(GraphStage.DYNAMO, text, {"c": ("2",)})))
        assert list(notes(each)) == ["dynamo: 1 nodes that torch lists have other sizes in its text: c"]

    def test_hostile_text(self):
        (each,) = compiled(HOSTILE)
        assert any("could not be read" in note for note in overview(HOSTILE, each).notes)


class TestLines:
    def test_a_line_at_every_stage(self):
        found = of_line(trained(), "trained.py:18", "0/0")
        assert [one.staged.label for one in found] == LABELS
        assert [node.name for node in found[0].nodes] == ["softmax", "mixed"]

    @pytest.mark.parametrize("wanted", ["18", "trained.py:18", "project/trained.py:18"])
    def test_ways_to_name_it(self, wanted: str):
        assert of_line(trained(), wanted, "0/0")

    @pytest.mark.parametrize("wanted", ["", ":", "ained.py:18", "trained.py", "trained.py:999", "x:y"])
    def test_no_such_line(self, wanted: str):
        assert of_line(trained(), wanted, None) == ()

    def test_all_lines(self):
        assert {at.line for at in lines(trained(), None)} == {16, 17, 18, 19}


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
    found: tuple[Compiled, ...] = compiled(session)
    assert found == ()
