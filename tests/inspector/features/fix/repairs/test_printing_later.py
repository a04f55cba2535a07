"""What may differ where prints come after the graph, by reading."""

import pytest

from ctrace.inspector.features.fix.repairs.configuration.reorderable_logging_functions import REPAIR
from tests.inspector.diagnosis.scenes import broken, ran, scene


def question(*lines: str, at: int) -> str:
    text = "\n".join(["import torch", "", "def forward(self, x):", *(f"    {line}" for line in lines)])
    (setting,) = REPAIR.find(scene(ran(text, broken(at, construct="print"))))
    return setting.question


@pytest.mark.parametrize("line", ["assert x.sum() > 0", "if x.sum() > 0: raise ValueError"])
def test_what_raises_before_a_print_is_a_question(line: str):
    assert "raises" in question("print(x.mean())", line, "return x", at=4)


@pytest.mark.parametrize("line", ["x.mul_(2)", "x[0] = 1", "x += 1"])
def test_what_changes_in_place_before_it_is_printed_is_a_question(line: str):
    assert "in place" in question("print(x)", line, "return x", at=4)
    assert not question("print(x.mean())", line, "return x", at=4)


def test_a_print_of_what_nothing_changes_needs_no_question():
    assert not question("y = x + 1", "print('mean', y)", "return y * 2", at=5)
