"""How a graph changes from one stage to another."""

from collections import Counter

import pytest

from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.graph_facts import GraphStage, Printed
from ctrace.inspector.findings.graphs.graph_view import CompiledGraph, compiled
from ctrace.inspector.findings.graphs.stage_diff import StageDiff, WhyGone, stage_diff, totals, two_stages
from tests.support.printed import HOSTILE, session_of, trained


def _each(graph: str = "0/0") -> CompiledGraph:
    (each,) = compiled(trained(), graph)
    return each


def _diff(stages: str, each: CompiledGraph | None = None) -> StageDiff:
    each = each or _each()
    return stage_diff(each, *two_stages(each, stages))


def _aten(*lines: str) -> str:
    body = "\n".join(f"        {line}" for line in lines)
    return f'class G(torch.nn.Module):\n    def forward(self, a: "f32[2][1]cpu", b: "f32[2][1]cpu"):\n{body}\n'


def _two(before: tuple[str, ...], after: tuple[str, ...]) -> StageDiff:
    printed = [Printed(GraphStage.BEFORE_JOINT, _aten(*before)), Printed(GraphStage.AFTER_JOINT, _aten(*after))]
    (each,) = compiled(session_of(*printed))
    return _diff("joint", each)


ADD = 'c: "f32[2][1]cpu" = torch.ops.aten.add.Tensor(a, b)'


class TestLowering:
    def test_softmax_is_decomposed(self):
        lines = {line.at.line: line for line in _diff("dynamo..forward").lowered if line.at}
        assert dict(lines[17].before) == {"softmax": 1, "matmul": 1}
        assert {"exp", "sum", "div", "bmm"} <= set(dict(lines[17].after))

    def test_an_op_of_the_same_name_is_the_same(self):
        lines = {line.at.line: line for line in _diff("dynamo..forward").lowered if line.at}
        assert (lines[15].before, lines[15].after, lines[15].same) == ((), (), (("add", 1),))

    def test_nothing_else_is_said(self):
        diff = _diff("dynamo..joint")
        assert diff.is_lowering
        assert diff.changes == ()


class TestChanges:
    def test_the_joint_graph_is_parted(self):
        diff = _diff("joint..forward")
        gone = Counter(each.why for line in diff.changes for each in line.gone)
        assert gone[WhyGone.MOVED] > 10
        assert gone[WhyGone.DUPLICATE] > 0
        backward = _each().first(GraphStage.BACKWARD)
        assert backward is not None
        moved = {each.node.name for line in diff.changes for each in line.gone if each.why is WhyGone.MOVED}
        assert moved <= {node.name for node in backward.nodes}

    def test_every_node_is_somewhere(self):
        diff = _diff("joint..forward")
        before, after = diff.before.graph, diff.after.graph
        assert before is not None
        assert after is not None
        stay = [line.same + len(line.other_op) + len(line.other_args) for line in diff.changes]
        gone = sum(len(line.gone) for line in diff.changes)
        new = sum(len(line.new) for line in diff.changes)
        for graph, number in ((before, sum(stay) + gone), (after, sum(stay) + new)):
            assert number == sum(node.kind not in ("placeholder", "output") for node in graph.nodes)

    def test_the_joint_passes_of_a_training_run_end_in_its_forward(self):
        assert [each.label for each in two_stages(_each(), "joint")] == ["joint", "forward"]

    def test_passes_that_changed_nothing(self):
        assert not any(line.is_change for line in _diff("post_grad").changes)

    def test_another_op_under_the_same_name(self):
        _, _, other = totals(_diff("forward..post_grad").changes)
        assert list(other) == ["aten.view → aten.reshape"]

    def test_the_same_computed_twice(self):
        twice = (ADD, 'd: "f32[2][1]cpu" = torch.ops.aten.add.Tensor(a, b)', "e = torch.ops.aten.mul.Tensor(c, d)")
        diff = _two((*twice, "return (e,)"), (ADD, "e = torch.ops.aten.mul.Tensor(c, c)", "return (e,)"))
        (line,) = diff.changes
        assert [(each.node.name, each.why, each.same_as) for each in line.gone] == [("d", WhyGone.DUPLICATE, "c")]
        assert [other.now.args for other in line.other_args] == ["c, c"]

    def test_random_numbers_are_never_the_same(self):
        rand = "torch.ops.aten.rand.default([2])"
        diff = _two((f"c = {rand}", f"d = {rand}", "return (c, d)"), (f"c = {rand}", "return (c, c)"))
        assert [each.why for line in diff.changes for each in line.gone] == [WhyGone.OTHER]

    def test_constants_and_unused_nodes(self):
        full = 'full: "f32[2][1]cpu" = torch.ops.aten.full.default([2], 3)'
        diff = _two((ADD, "return (c,)"), (full, "return (full,)"))
        assert [line.is_constant for line in diff.changes] == [True]
        diff = _two((ADD, "return (a,)"), ("return (a,)",))
        assert [each.why for line in diff.changes for each in line.gone] == [WhyGone.UNUSED]


@pytest.mark.parametrize(
    ("stages", "what", "todo"),
    [
        ("forward", "a diff needs two stages", "write before..after, or one of: pre_grad,"),
        ("forwrd..joint", "no such stage", "did you mean forward?"),
        ("post_grad_backwards..joint", "no such stage", "did you mean"),
    ],
)
def test_wrong_stages(stages: str, what: str, todo: str) -> None:
    with pytest.raises(TargetError, match=what) as caught:
        two_stages(_each(), stages)
    assert caught.value.todo.startswith(todo)


def test_a_stage_that_cannot_be_read() -> None:
    (each,) = compiled(HOSTILE)
    with pytest.raises(TargetError, match="cannot be read"):
        _diff("forward..backward", each)
