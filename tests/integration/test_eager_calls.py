"""Models that compile parts of themselves: what an eager call compiles is no part of the compiled model."""

import pytest

from tests.integration.conftest import Command

INNER = """
import torch


def wrong(graph, example_inputs):
    return lambda *args: tuple(each + 1 for each in graph(*args))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(8, 8)
        self.wave = torch.compile(lambda x: x.sin() + 1, backend=wrong)

    def forward(self, x):
        return self.wave(self.up(x))


model = Net()
inputs = (torch.rand(4, 8),)
"""
"""Dynamo traces through the inner torch.compile and ignores its backend."""

COND = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(8, 8)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.up(x).relu(), lambda x: self.up(x).sin(), (x,))


model = Net()
inputs = (torch.rand(4, 8),)
"""
FLEX = """
import torch
from torch.nn.attention.flex_attention import flex_attention

attend = torch.compile(flex_attention)


def model(x):
    return attend(x, x, x)


inputs = (torch.rand(1, 1, 16, 8),)
"""


@pytest.mark.parametrize("code", [INNER, COND, FLEX], ids=["inner", "cond", "flex"])
def test_the_model_is_one_graph_and_equal_to_eager(ctrace: Command, code: str) -> None:
    ctrace.write("net.py", code)
    result = ctrace("explain", "net.py", "--json")
    found = result.report
    assert (result.code, found["verdict"], found["problems"], found["causes"]) == (0, "compiled", [], [])
    assert [each["file"] for each in found["graphs"]] == ["net.py"]
    (scenario,) = found["scenarios"]
    assert (scenario["calls"], scenario["compared"], scenario["not_compared"]) == (2, 2, None)
    assert "without torch.compile()" not in result.err
