"""Find the line that an operator is computed for."""

import sys
from pathlib import Path
from types import FrameType

import pytest

from ctrace.inspector.features.memory.child.storage_ledger import CodeOrigin
from ctrace.inspector.features.memory.child.tracked_calls import OperatorLines

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
