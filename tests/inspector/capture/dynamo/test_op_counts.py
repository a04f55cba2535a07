"""The record of counted ops."""

from types import CodeType

import pytest

from ctrace.inspector.capture.dynamo.op_counts import OpCounter, OpCounts, countable, describe
from ctrace.inspector.facts.findings import Frame
from ctrace.inspector.facts.run_events import FunctionOps, LeftOps, OpsCounted
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
    functions = (FunctionOps(MODEL, "Net.forward", 2, 3), FunctionOps(MODEL, "helper", 5, 4))
    assert describe("base", eager, None) == OpsCounted(
        scenario="base", eager=7, left=None, functions=functions, stacks=()
    )


def test_ops_left_in_eager_keep_their_stacks_the_most_first():
    left = counts((((FORWARD, 3),), 1), (((FORWARD, 4), (HELPER, 6)), 2))
    described = describe("base", counts(), left)
    assert (described.eager, described.left) == (0, 3)
    assert described.stacks == (
        LeftOps((Frame(MODEL, 4, "forward"), Frame(MODEL, 6, "helper")), 2),
        LeftOps((Frame(MODEL, 3, "forward"),), 1),
    )


def test_ops_that_no_frame_led_to_have_no_function():
    described = describe("base", counts(((), 2)), counts(((), 1)))
    assert (described.eager, described.functions) == (2, ())
    assert described.stacks == (LeftOps((), 1),)


def test_nothing_left_is_a_measured_zero():
    described = describe("base", counts(), counts())
    assert (described.left, described.stacks) == (0, ())


def test_code_that_cannot_be_hashed_is_counted_by():
    written = FORWARD.replace(co_consts=(None, {"a dict": "as Dynamo has them"}))
    with pytest.raises(TypeError):
        hash(written)
    code = countable(written)
    left = counts((((code, 3),), 1))
    assert describe("base", counts(), left).stacks == (LeftOps((Frame(MODEL, 3, "forward"),), 1),)
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


def test_what_a_recurrent_layer_saves_for_its_backward_is_no_op() -> None:
    import torch

    layer, x = torch.nn.LSTM(4, 8, num_layers=2), torch.ones(3, 2, 4)
    with OpCounter().everywhere() as counts:
        layer(x)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        layer(x)
    outer = ("aten::lstm", "aten::cudnn_is_acceptable")  # which torch takes apart before a mode sees them
    events = [each for each in profile.events() if each.cpu_parent is None or each.cpu_parent.name in outer]
    assert counts.total == sum(each.name not in outer for each in events)
