"""Slices that may be shorter than what a change combines them with."""

import pytest

from ctrace.inspector.source.cut_slices import cut_slices

FILE = """\
import torch

def f(self, x, n):
    rows = {rows}
    {line}
    return h
"""
BRANCH = "h = x + {0} if x.sum() > 0 else x"
WHERE = "h = torch.where(x.sum() > 0, x + {0}, x)"


def asked(rows: str, read: str) -> tuple[str, ...]:
    before, after = (FILE.format(rows=rows, line=each.format(read)) for each in (BRANCH, WHERE))
    return cut_slices(before, after)


@pytest.mark.parametrize(("rows", "read"), [("self.table[: x.shape[0]]", "rows"), ("1", "self.table[:, :n]")])
def test_a_slice_up_to_a_computed_size_is_asked_about(rows: str, read: str):
    (question,) = asked(rows, read)
    assert "self.table[" in question


@pytest.mark.parametrize(("rows", "read"), [("self.table[:4]", "rows"), ("self.table[0]", "rows"), ("x[:-1]", "rows")])
def test_a_constant_bound_is_not(rows: str, read: str):
    assert asked(rows, read) == ()


def test_lines_that_stay_are_not_read():
    text = FILE.format(rows="self.table[:n] + x", line="h = x if x.sum() > 0 else 2 * x")
    assert cut_slices(text, text.replace("x if x.sum() > 0 else 2 * x", "torch.where(x.sum() > 0, x, 2 * x)")) == ()
