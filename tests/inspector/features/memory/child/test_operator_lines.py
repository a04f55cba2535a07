"""Find the line that an operator is computed for."""

import sys
from pathlib import Path
from types import FrameType

import pytest
import torch

from ctrace.inspector.features.memory.child.storage_ledger import NOWHERE, CodeOrigin, Ledger
from ctrace.inspector.features.memory.child.tracked_calls import OperatorLines, mark_parameters

LIBRARY = """
def layer(frame):
    return frame()

class Model:
    def forward(self, frame):
        return layer(frame)
"""
PROGRAM = """
def train(model, frame):
    return model.forward(frame)
"""


@pytest.fixture
def frame(tmp_path: Path) -> FrameType:
    """A library's function that a program calls."""
    library, program = tmp_path / "site-packages" / "lib.py", tmp_path / "train.py"
    names: dict[str, object] = {}
    for file, source in ((library, LIBRARY), (program, PROGRAM)):
        exec(compile(source, str(file), "exec"), names)
    inner = names["train"](names["Model"](), sys._getframe)  # type: ignore[operator]
    assert isinstance(inner, FrameType)
    return inner


def test_the_innermost_line_of_the_program_counts(frame: FrameType, tmp_path: Path) -> None:
    assert OperatorLines().here(frame) == CodeOrigin(str(tmp_path / "train.py"), 3, "train")


def test_eager_looks_no_further_than_a_graph_would(frame: FrameType, tmp_path: Path) -> None:
    lines = OperatorLines()
    library = str(tmp_path / "site-packages" / "lib.py")
    lines.entered.add(CodeOrigin(library, 6, "forward"))
    assert lines.here(frame) == CodeOrigin(library, 3, "layer")


def test_a_gradient_without_a_line_is_of_the_line_that_makes_its_parameter() -> None:
    ledger = Ledger()
    first, second = (torch.nn.Parameter(torch.ones(4)) for _ in range(2))
    made, used = CodeOrigin("model.py", 3, "f"), CodeOrigin("model.py", 9, "forward")
    for each in (first, second):
        ledger.add(each.detach(), made, "aten.ones")
        each.grad = torch.ones(4)
    ledger.add(first.grad, NOWHERE, "aten.mm")
    ledger.add(second.grad, used, "aten.mm")
    mark_parameters(ledger, (first, second))
    found = [ledger.of(each.grad) for each in (first, second)]
    assert [each.origin for each in found if each is not None] == [made, used]
