"""Loops that Dynamo unrolls, and layers that share code which a break makes a frame of its own."""

import pytest

from tests.integration.conftest import Command

pytestmark = pytest.mark.integration

MODEL = """
import torch


class Layer(torch.nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.heads = heads

    def forward(self, x):
        torch._dynamo.graph_break()
        n = 0
        while n < 3:
            x = x + n
            n += 1
        return x * self.heads


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([Layer(2), Layer(3), Layer(4)])

    def start(self, x):
        for _ in range(5):
            x = x.sin()
            for k in range(2):
                x = x * k
        return sum([part.exp() for part in x.unbind()])

    def forward(self, x):
        y = self.start(x)
        for layer in self.layers:
            y = layer(y)
        return y


model = Net()
inputs = (torch.ones(2, 4),)
"""


def test_loops_and_layers(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL)
    report = ctrace("explain", "model.py", "--fast", "--json").report
    assert report["problems"] == []
    loops = {(each["line"], each["times"], each["ops"]) for each in report["unrolled"]}
    at = {text.strip(): number for number, text in enumerate(MODEL.split("\n"), 1)}
    assert loops == {
        (at["for _ in range(5):"], 5, 15),
        (at["for k in range(2):"], 10, 10),
        (at["return sum([part.exp() for part in x.unbind()])"], 2, 2),
        (at["while n < 3:"], 3, 3),
    }
    again = [each for each in report["recompiles"] if each["shared_by"] == "Layer modules"]
    changes = [(each["causes"][0]["subject"], each["causes"][0]["now"]) for each in again]
    assert changes == [("self.heads", "3"), ("self.heads", "4")]
    (cause,) = [each for each in report["causes"] if not each["expected"]]  # the break explains the recompilations
    assert cause["line"] == at["torch._dynamo.graph_break()"]
