"""Torch's own reasons for a recompilation, one for each cache entry, newest first."""

import pytest

from ctrace.inspector.findings.recompiles.torch_reasons import failed_of

DTYPE = "tensor 'x' dtype mismatch. expected Double, actual Float"
STRIDE = "tensor 'x' stride mismatch at index 0. expected 6, actual 1"
ONE = "tensor 'x' size mismatch at index 0. expected 1, actual 8"
FOUR = "tensor 'x' size mismatch at index 0. expected 4, actual 8"
STEP = "self.step == 3                     # return x * self.step  # er/project/train.py:7 in forward"


@pytest.mark.parametrize(
    ("reasons", "entry"),
    [
        ([f"0/0: {DTYPE}"], "0/0"),
        ([f"0/1: {DTYPE}", f"0/0: {STRIDE}"], "0/0"),
        ([f"0/1: {STRIDE}", f"0/0: {DTYPE}"], "0/1"),
        ([f"0/1: {ONE}", f"0/0: {FOUR}"], "0/0"),
        ([f"0/1: {ONE}", "0/0: x is None    # if x is None:  # er/project/train.py:7 in forward"], "0/1"),
        ([f"0/2: {STEP}", f"0/1: {STEP}", f"0/0: {STEP}"], "0/2"),
    ],
)
def test_nearest_entry_passes_the_most_checks(reasons: list[str], entry: str):
    failed = failed_of("0/3", reasons, ())
    assert failed is not None
    assert [each.id for each in failed.entries] == [entry]


def test_guard_has_its_users_line():
    failed = failed_of("0/1", [f"0/0: {STEP}\nUser stack trace:\n"], ["/home/user/project/train.py"])
    assert failed is not None
    (guard,) = failed.entries[0].unmet
    assert guard.text == "self.step == 3"
    assert [(each.file, each.line) for each in guard.stack] == [("/home/user/project/train.py", 7)]


def test_torch_may_name_no_entry():
    assert failed_of("0/1", ["Unable to find recompilation reasons"], ()) is None


def test_files_of_torch_are_not_the_users():
    text = "0/0: fn.training == True     # return F.dropout(input)  # nn/modules/dropout.py:73 in forward"
    failed = failed_of("0/1", [text], ["/venv/lib/python3.11/site-packages/torch/_dynamo/external_utils.py"])
    assert failed is not None
    (frame,) = failed.entries[0].unmet[0].stack
    assert frame.file == "/venv/lib/python3.11/site-packages/torch/nn/modules/dropout.py"
