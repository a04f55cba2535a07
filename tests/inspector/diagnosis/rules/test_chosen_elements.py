"""Maxima and minima of what a mask chooses, by reading."""

import pytest

from ctrace.inspector.diagnosis.rules.shape_rules import reduces_chosen

MODULE = """\
import torch

class Net:
    def forward(self, x, m):
        {}
        return {}
"""


@pytest.mark.parametrize(
    ("line", "result", "expected"),
    [
        ("y = x[m].max()", "x * y", True),
        ("y = x[x > 0].min()", "x * y", True),
        ("y = x[m]", "x * y.max()", True),
        ("y = x[m]; z = y * 2", "x * torch.min(z)", True),
        ("y = torch.masked_select(x, m)", "x * y.max()", True),
        ("y = torch.max(x[m])", "x * y", True),
        ("y = x[m].sum()", "x * y", False),
        ("y = x[m].amax()", "x * y", False),
        ("y = x[m].max(0)", "x * y", False),
        ("y = x[m]", "y * x.max()", False),
        ("y = x[0].max()", "x[m] * y", False),
        ("y = x[:, 1:].max()", "x * y", False),
    ],
)
def test_reductions_that_raise_for_nothing(line: str, result: str, expected: bool):
    assert reduces_chosen(MODULE.format(line, result), 5) == expected


def test_a_file_that_is_no_python_says_nothing():
    assert not reduces_chosen("def", 1)
