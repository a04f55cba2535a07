"""What an expression may do besides computing its value."""

import libcst as cst
import pytest

from ctrace.inspector.edits.syntax_code import ParsedFile, walk
from ctrace.inspector.edits.syntax_effects import is_safe_divisor


@pytest.mark.parametrize(
    ("lines", "is_safe"),
    [
        ("d = x.sum()", True),
        ("d = x.sum()\n    d = x.mean()", True),
        ("d = x.sum()\n    d = 0", False),
        ("if x.dim():\n        d = x.sum()\n    d -= 1", False),
        ("d = x.sum()\n    for d in range(3): pass", False),
        ("d = x.dim()", False),
        ("pass", False),
    ],
)
def test_a_divisor_is_safe_if_all_that_its_name_may_hold_are_tensors(lines: str, is_safe: bool):
    code = ParsedFile(f"def f(x):\n    {lines}\n    return x / d\n")
    [division] = [one for one in walk(code.module) if isinstance(one, cst.BinaryOperation)]
    assert is_safe_divisor(code, division.right) is is_safe


def test_a_divisor_that_a_caller_may_pass_is_not_safe():
    code = ParsedFile("def f(x, d):\n    if x.dim():\n        d = x.sum()\n    return x / d\n")
    [division] = [one for one in walk(code.module) if isinstance(one, cst.BinaryOperation)]
    assert not is_safe_divisor(code, division.right)
