"""Integer arithmetic on expressions of untrusted logs."""

import ast

import pytest

from ctrace.inspector.findings.graphs.fx import calculated


@pytest.mark.parametrize(
    ("left", "operator", "right", "expected"),
    [
        (7, ast.Add(), 2, 9),
        (7, ast.Sub(), 9, -2),
        (7, ast.Mult(), 3, 21),
        (7, ast.FloorDiv(), 2, 3),
        (7, ast.FloorDiv(), 0, None),
        (7, ast.Mod(), 0, None),
        (7, ast.Mod(), 4, 3),
        (2, ast.Pow(), 8, 256),
        (2, ast.Pow(), 10**9, None),
        (None, ast.Add(), 1, None),
        (1, ast.BitAnd(), 1, None),
    ],
)
def test_calculated(left: int | None, operator: ast.operator, right: int | None, expected: int | None):
    assert calculated(left, operator, right) == expected
