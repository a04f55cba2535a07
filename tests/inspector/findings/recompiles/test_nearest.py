import pytest

from ctrace.inspector.facts.findings import Cause, CauseKind, Recompile
from ctrace.inspector.findings.recompiles.recompile_view import other_reason

SIZE = "0/1: tensor 'x' size mismatch at index 2. expected 16, actual 17"


def recompile(reason, nearest="0/1", subject="x.size(2)"):
    return Recompile(
        "0/2", "f", "a.py", 1, False, (Cause(CauseKind.SIZE, subject, "16", "17"),), reason, nearest=nearest
    )


def test_the_same_guard_is_not_said_twice():
    assert other_reason(recompile(SIZE)) is None


@pytest.mark.parametrize("differing", [{"nearest": "0/0"}, {"subject": "y.size(2)"}])
def test_another_guard_is_quoted(differing):
    assert other_reason(recompile(SIZE, **differing)) == "tensor 'x' size mismatch at index 2. expected 16, actual 17"


def test_no_reason_is_no_other_one():
    assert other_reason(recompile("")) is None
