"""A few programs that misbehave; `python -m tests.faults --only misbehaving` runs all of them."""

import sys
from pathlib import Path

import pytest

from tests.faults.programs import PROGRAMS, cases, tried
from tests.faults.study import Result

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="uses what Linux has")


@pytest.mark.parametrize(
    "name",
    [
        "leaves a daemon",
        "closes all files and opens others",
        "replaces os functions",
        "a broken excepthook",
        "a thread that goes on",
        "200 MB of output",
        "kills its parent",
        "few files",
    ],
)
def test_it_is_reported_as_what_it_is(name: str, tmp_path: Path) -> None:
    one = tried(name, "run", (sys.executable, "-m", "ctrace"), tmp_path / "folder")
    assert one.result is Result.FINE, one


def test_every_program_is_tried_by_every_command() -> None:
    assert len(set(cases(1))) == 3 * len(PROGRAMS)
