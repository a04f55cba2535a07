"""Advice on a package that makes compilation fail, and on a loop that makes most of a graph: tried on the real thing."""

from pathlib import Path

import pytest

from tests.integration.conftest import Command

KIT = """\
import torch


@torch.library.custom_op("kit::odd", mutates_args=())
def odd(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@odd.register_fake
def _(x):
    return torch.empty_like(x)


def _backward(ctx, grad):
    if type(grad).__name__ in ("FakeTensor", "FunctionalTensor"):
        raise AssertionError("Node view was invalid, kit needs a real tensor")
    return grad


odd.register_autograd(_backward)


class Quantize(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(size))

    def forward(self, x):
        y = odd(x * self.scale)
        return x + y, y.mean()
"""
NET = """\
import sys

sys.path.insert(0, "site-packages")
import torch
from kit import Quantize


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.quantize = Quantize(8)
        self.last = torch.nn.Linear(8, 2)

    def forward(self, x):
        y, loss = self.quantize(x)
        return self.last(y) + loss


model = Net().train()


def inputs():
    return (torch.rand(4, 8),)
"""
LOOP = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 8)
        self.again = torch.nn.Linear(8, 8)

    def forward(self, x):
        h = x.new_zeros(x.size(0), 8)
        for t in range(40):
            now = x[:, t]
            gates = self.first(now) + self.again(h)
            left = torch.sigmoid(gates)
            right = torch.tanh(gates)
            h = left * h + (1 - left) * right
        return h


model = Net()


def inputs():
    return (torch.rand(2, 40, 4),)
"""


@pytest.mark.long
def test_a_call_of_a_package_that_raises_is_kept_out_of_the_graph(ctrace: Command, tmp_path: Path):
    ctrace.write("site-packages/kit/__init__.py", KIT)
    ctrace.write("net.py", NET)
    ran = ctrace("explain", "net.py")
    assert ran.code == 3
    head = " ".join(ran.out.split("What to do")[0].split())
    assert "AssertionError: Node view was invalid, kit needs a real tensor" in head
    found = ctrace("explain", "--json").report["advice"][0]
    assert found["checked"]
    assert "torch.compiler.disable(lambda: self.quantize(x))()" in found["text"]
    assert "10 calls no longer raise" in " ".join(ran.out.split())


@pytest.mark.long
def test_the_body_of_a_loop_compiles_in_less_time_than_the_loop(ctrace: Command, tmp_path: Path):
    ctrace.write("net.py", LOOP)
    ran = ctrace("explain", "net.py")
    assert ran.code == 0
    assert "Nothing to fix" not in ran.out
    shown = " ".join(ran.out.split())
    assert "net.py:12: move lines 14 to 17, the body of the loop, to self.step(), and compile that" in shown
    assert "checked: compile time" in shown
    fast = " ".join(ctrace("explain", "net.py", "--fast").out.split())
    assert "If compiling takes too long, move lines 14 to 17" in fast
