"""The changes of each pass, by name."""

from ctrace.inspector.facts.passes import Pass, Pattern
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.graph_view import compiled
from ctrace.inspector.findings.graphs.passes_view import Origin, between, common_origin, origins
from tests.support.helpers import recorded

TRAINED = recorded("trained")
MATCHED = Pass(
    "pass_pattern_1",
    "joint",
    (),
    0,
    created=(("mul_1", "aten.mul"),),
    patterns=(Pattern("p", 1, 2, (), (), ("m.py:8",)),),
    graph="0/0",
)


def test_a_node_is_traced_to_the_pass_that_made_it() -> None:
    known = origins(Session(passes=(MATCHED,)), "0/0")
    assert known == {"mul_1": Origin("pass_pattern_1", ("m.py:8",))}
    assert common_origin(known, ["mul_1"]) == Origin("pass_pattern_1", ("m.py:8",))
    assert common_origin(known, ["mul_1", "other"]) is None


def test_passes_between_two_stages() -> None:
    each = compiled(TRAINED)[0]

    def seen(before: str, after: str) -> set[tuple[str, str]]:
        found = between(TRAINED, each, each.stage(before), each.stage(after))
        return {(run.stage, run.subsystem) for run in found}

    assert seen("dynamo", "pre_grad") == {("pre_grad", "pre_grad_passes")}
    assert seen("joint", "forward") == {("joint", "joint_graph_passes")}
    assert seen("before_post_grad", "post_grad") == {("forward", "post_grad_passes")}
    assert seen("before_post_grad_backward", "post_grad_backward") == {("backward", "post_grad_passes")}
    assert seen("forward", "forward") == set()
