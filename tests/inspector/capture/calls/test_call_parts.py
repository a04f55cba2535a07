"""The modules of a target, and how some of them are compiled instead of the whole."""

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from ctrace.inspector.capture.calls.applied_trial import TrialError
from ctrace.inspector.capture.calls.call_parts import compiled, described

net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())


class Outer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def model(x: torch.Tensor) -> torch.Tensor:
    return net(x) + 1


def test_each_module_has_the_lines_of_its_forward() -> None:
    found = described(Outer())
    assert [each.path for each in found.parts] == ["model", "model.blocks", "model.blocks.0", "model.blocks.1"]
    code = found.codes[found.parts[0].code]
    lines = Outer.forward.__code__
    assert (code.file, code.first) == (__file__, lines.co_firstlineno)
    assert code.last == lines.co_firstlineno + 3
    assert found.parts[2].code == found.parts[3].code


def test_of_a_function_the_modules_among_its_variables() -> None:
    assert [each.path for each in described(model).parts] == ["net", "net.0", "net.1"]


def test_only_the_parts_are_compiled() -> None:
    torch._dynamo.reset()
    counter, outer = CompileCounter(), Outer()
    call = compiled(outer, ("model.blocks.0", "model.blocks.1"), {"backend": counter})
    with torch.no_grad():  # else the second block gets an input that requires a gradient
        call(torch.rand(2, 4))
    assert counter.frame_count == 1
    assert counter.op_count == 1


def test_a_part_that_is_not_there() -> None:
    with pytest.raises(TrialError, match=r"there is no model\.head"):
        compiled(Outer(), ("model.head",), {})
