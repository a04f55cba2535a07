"""`ctrace memory`, as far as it goes without torch."""

import contextlib
from pathlib import Path

import pytest

from tests.support import inprocess


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ((), "no target"),
        (("absent.py",), "there is no file absent.py"),
        (("model.py", "--try", "--budget", "soon"), "--budget soon: not a time"),
        (("model.py", "--target", "h100"), "--target is the limit of --fit"),
    ],
)
def test_bad_input_is_two_lines(tmp_path: Path, words: tuple[str, ...], what: str) -> None:
    (tmp_path / "model.py").write_text("model = 1\n")
    with contextlib.chdir(tmp_path):
        ran = inprocess.ctrace("memory", *words)
    assert ran.code == 2
    assert what in ran.err
    assert len(ran.err.strip().splitlines()) == 2


def test_a_budget_is_written_as_in_the_other_commands(tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        ran = inprocess.ctrace("memory", "absent.py", "--try", "--budget", "5m")
    assert "there is no file absent.py" in ran.err
