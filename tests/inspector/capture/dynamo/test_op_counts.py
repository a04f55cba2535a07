"""The record of counted ops."""

from types import CodeType

import pytest

from ctrace.inspector.capture.dynamo.op_counts import OpCounter, OpCounts, countable, describe
from tests.support.helpers import MODEL

CODES = compile(
    "class Net:\n    def forward(self):\n        pass\n\ndef helper():\n    pass\n", MODEL, "exec"
).co_consts
NET, HELPER = (code for code in CODES if isinstance(code, CodeType))
FORWARD = next(code for code in NET.co_consts if isinstance(code, CodeType))


def counts(*sites: tuple[tuple[tuple[CodeType, int], ...], int]) -> OpCounts:
    made = OpCounts()
    for site, ops in sites:
        made.sites[site] += ops
    return made


def test_ops_belong_to_the_innermost_function():
    eager = counts((((FORWARD, 3),), 2), (((FORWARD, 3), (HELPER, 6)), 4), (((FORWARD, 4),), 1))
    assert describe(eager, None) == {
        "eager": 7,
        "left": None,
        "functions": [
            {"file": MODEL, "name": "Net.forward", "line": 2, "ops": 3},
            {"file": MODEL, "name": "helper", "line": 5, "ops": 4},
        ],
    }


def test_ops_left_in_eager_keep_their_stacks_the_most_first():
    left = counts((((FORWARD, 3),), 1), (((FORWARD, 4), (HELPER, 6)), 2))
    described = describe(counts(), left)
    assert (described["eager"], described["left"]) == (0, 3)
    forward, helper = {"file": MODEL, "name": "forward"}, {"file": MODEL, "name": "helper"}
    assert described["stacks"] == [
        {"frames": [{**forward, "line": 4}, {**helper, "line": 6}], "ops": 2},
        {"frames": [{**forward, "line": 3}], "ops": 1},
    ]


def test_ops_that_no_frame_led_to_have_no_function():
    described = describe(counts(((), 2)), counts(((), 1)))
    assert (described["eager"], described["functions"]) == (2, [])
    assert described["stacks"] == [{"frames": [], "ops": 1}]


def test_nothing_left_is_a_measured_zero():
    described = describe(counts(), counts())
    assert (described["left"], described["stacks"]) == (0, [])


def test_code_that_cannot_be_hashed_is_counted_by():
    written = FORWARD.replace(co_consts=(None, {"a dict": "as Dynamo has them"}))
    with pytest.raises(TypeError):
        hash(written)
    code = countable(written)
    left = counts((((code, 3),), 1))
    assert describe(counts(), left)["stacks"] == [{"frames": [{"file": MODEL, "name": "forward", "line": 3}], "ops": 1}]
    assert countable(FORWARD) is FORWARD


def test_dynamos_conversions_to_numpy_are_no_ops_of_the_user():
    import torch
    from torch._dynamo.utils import to_numpy_helper

    tensor = torch.ones(2)
    with OpCounter().outside_graphs() as left:
        to_numpy_helper((tensor, [tensor]))
        assert left.total == 0
        tensor.numpy(force=True)
    assert left.total == 1


def test_what_a_function_saves_for_its_backward_is_no_op() -> None:
    import torch

    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            result = x.exp()
            ctx.save_for_backward(result)
            return result

    x = torch.ones(2, requires_grad=True)
    with OpCounter().everywhere() as counts:
        Exp.apply(x)
    assert counts.total == 1
    with OpCounter().everywhere() as counts:
        x.detach()
    assert counts.total == 1
