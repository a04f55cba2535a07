"""Decode fusion: numbers become names, and stacks the user's lines."""

from typing import Any

from ctrace.inspector.facts.fusion_facts import (
    Access,
    Buffer,
    BufferRole,
    Fusion,
    FusionCandidate,
    FusionRound,
    Node,
    NodeKind,
    Refusal,
    Score,
)
from ctrace.inspector.facts.kernel_facts import Stage
from tests.support.helpers import MODEL, Log

NAMES = ["op0", "op1", "op0_op1", "op2"]
BUFFER = {
    "name": "buf0", "role": "inner", "dtype": "float32", "shape": ["s77", "8"], "stride": ["8", "1"], "device": "cpu",
    "bytes": None,
}  # fmt: skip


def stack(line: int) -> str:
    return f'  File "{MODEL}", line {line}, in forward\n    x.exp()\n'


def node(name: str, **more: Any) -> dict[str, Any]:
    made = {
        "kind": "pointwise",
        "operations": [name],
        "loops": "8",
        "ops": [0],
        "stacks": [0],
        "accesses": [],
        "flops": 8,
    }
    return {"name": name, **made, **more}


def payload(**more: Any) -> dict[str, Any]:
    data = {
        "stage": "forward", "before": 3, "after": 2, "refused": 2, "names": NAMES, "reasons": ["far", ""],
        "ops": ["aten.exp", "aten.mm"], "stacks": [stack(9), stack(12)],
        "rounds": [
            {
                "before": 3, "after": 2, "reorder": False, "tried": 3, "pairs": [[0, 1]],
                "candidates": [[0, 1, 2, 1, 64, 0, -1], [1, 0]], "refused": [[0, 3, 0], [1, 3, 1]],
            },
        ],
        "nodes": [
            node("op0", accesses=[["arg0", 32, 0], ["buf0", 0, 32]]),
            node("op1", ops=[0], stacks=[1, 0], flops=None),
            node("op2", kind="external", loops="", ops=[1], stacks=[]),
        ],
        "result": [
            {
                "name": "op0_op1", "kind": "reduction", "operations": ["op0", "op1"], "loops": "4 | 2",
                "accesses": [["arg0", 32, 0]], "flops": 16,
            },
            2,
        ],
        "buffers": [BUFFER],
        "outputs": ["buf2"],
    }  # fmt: skip
    return data | more


def decoded(data: dict[str, Any]) -> Fusion:
    (fusion,) = Log().ctrace("fusion", data, at="0/0").session().fusions
    return fusion


def problem(data: dict[str, Any]) -> str:
    session = Log().ctrace("fusion", data, at="0/0").session()
    assert session.fusions == ()
    return session.problems[0].what


def test_a_round():
    (only,) = decoded(payload()).rounds
    assert only == FusionRound(
        before=3,
        after=2,
        fused=(("op0", "op1"),),
        tried=3,
        candidates=(FusionCandidate("op0", "op1", Score(2, 1, 64, 0, -1)), FusionCandidate("op1", "op0")),
        refused=(Refusal("op0", "op2", "far"), Refusal("op1", "op2", "")),
    )


def test_nodes_before_fusion_have_the_lines_of_their_stacks():
    first, second, third = decoded(payload()).nodes
    accesses = (Access("arg0", 32, 0), Access("buf0", 0, 32))
    assert first == Node("op0", NodeKind.POINTWISE, ("op0",), "8", ("aten.exp",), (f"{MODEL}:9",), accesses, flops=8)
    assert (first.read, first.written) == (32, 32)
    assert (second.lines, second.flops) == ((f"{MODEL}:12", f"{MODEL}:9"), None)
    assert (third.kind, third.ops, third.lines) == (NodeKind.EXTERNAL, ("aten.mm",), ())


def test_a_fused_node_has_ops_and_lines_of_all_its_operations():
    fusion = decoded(payload())
    fused, alone = fusion.result
    assert (fused.name, fused.kind, fused.operations) == ("op0_op1", NodeKind.REDUCTION, ("op0", "op1"))
    assert (fused.ops, fused.lines) == (("aten.exp",), (f"{MODEL}:9", f"{MODEL}:12"))
    assert alone == fusion.nodes[2]


def test_buffers_and_outputs():
    fusion = decoded(payload())
    assert fusion.buffers == (Buffer("buf0", BufferRole.INNER, "float32", ("s77", "8"), ("8", "1"), "cpu", None),)
    assert fusion.outputs == ("buf2",)


def test_nodes_that_could_not_be_described_leave_the_rounds():
    rest = {name: value for name, value in payload().items() if name not in ("nodes", "result", "buffers", "outputs")}
    fusion = decoded(rest)
    assert (fusion.nodes, fusion.result, fusion.buffers, fusion.outputs) == ((), (), (), ())
    assert fusion.rounds[0].tried == 3


def test_a_log_of_an_older_ctrace():
    rounds = [{"before": 3, "after": 2, "fused": [["op0", "op1"]]}]
    fusion = decoded({"stage": "forward", "before": 3, "after": 2, "rounds": rounds, "refused": 1})
    assert fusion == Fusion("0/0", Stage.FORWARD, 3, 2, (FusionRound(3, 2, (("op0", "op1"),)),), refused=1)
    assert fusion.rounds[0].tried is None


def test_a_number_without_a_name():
    (each,) = payload()["rounds"]
    for wrong in (-1, len(NAMES)):
        assert "there is no number" in problem(payload(rounds=[{**each, "pairs": [[0, wrong]]}]))
    assert "there is no number" in problem(payload(result=[3]))


def test_an_access_that_is_none():
    for wrong in (["buf0", 1], ["buf0", 1, None], [0, 1, 2], ["buf0", True, 2]):
        assert "artifact:ctrace_fusion" in problem(payload(nodes=[node("op0", accesses=[wrong])]))
