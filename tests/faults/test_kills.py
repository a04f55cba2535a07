"""A few kills; `python -m tests.faults --only kills` does all of them."""

import signal
import sys
from pathlib import Path

import pytest

from tests.faults.kills import Kill, tried
from tests.faults.study import Result

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="nothing survives on Linux alone")
_CTRACE = (sys.executable, "-m", "ctrace")


@pytest.mark.parametrize(
    "kill",
    [
        Kill("run", "a daemon", signal.SIGKILL, 3.0, is_to_group=False),
        Kill("run", "deaf", signal.SIGTERM, 3.0, is_to_group=False),
        Kill("explain", "workers", signal.SIGHUP, 3.0, is_to_group=True),
        Kill("check", "deaf", signal.SIGKILL, 3.5, is_to_group=True),
        Kill("check", "a session", signal.SIGINT, 2.5, is_to_group=False),
    ],
    ids=str,
)
def test_nothing_is_left(kill: Kill, tmp_path: Path) -> None:
    one = tried(kill, _CTRACE, tmp_path / "folder")
    assert one.result is Result.FINE, one
