"""Which choices get float32 from one side alone, where autocast runs on a GPU."""

import pytest

from ctrace.inspector.source.open_questions import open_questions

FILE = """\
import torch
import torch.nn.functional as F

def f(self, x):
    h = {made}
    s = h.exp()
    {line}
    return h
"""


def about(yes: str, no: str, made: str = "F.linear(x, self.w)") -> tuple[str, ...]:
    lines = f"h = {yes} if h.max() > 4 else {no}", f"h = torch.where(h.max() > 4, {yes}, {no})"
    return open_questions(*(FILE.format(made=made, line=line) for line in lines))


@pytest.mark.parametrize(
    ("yes", "no"),
    [
        ("0.1 * h**2", "h"), ("h", "h.exp()"), ("F.softmax(h, -1)", "h"), ("s", "h"), ("1 / h", "h"),
        ("h - h.sum(-1, keepdim=True)", "h"), ("-torch.log1p(h)", "h * 2"),
        ("torch.where(h > 0, h**2, 1)", "h"),
    ],
)  # fmt: skip
def test_one_wide_side_is_asked_about(yes: str, no: str):
    (question,) = about(yes, no)
    assert "autocast" in question


@pytest.mark.parametrize(
    ("yes", "no"),
    [
        ("h * 2", "h"), ("h**2", "h.exp()"), ("h / h.norm()", "h"), ("h - torch.sum(h)", "h"), ("h.relu()", "h.tanh()"),
        ("h.exp().to(h.dtype)", "h"),
    ],
)  # fmt: skip
def test_sides_of_one_dtype_are_not(yes: str, no: str):
    assert about(yes, no) == ()


def test_nothing_is_asked_where_autocast_lowers_nothing():
    assert about("h**2", "h", made="x + 1") == ()


@pytest.mark.parametrize("made", ["x @ self.w", "torch.nn.Linear(3, 3)(x)", "torch.bmm(x, x)"])
def test_what_autocast_lowers(made: str):
    assert len(about("h**2", "h", made=made)) == 1
