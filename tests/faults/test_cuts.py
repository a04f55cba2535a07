"""Some cuts of a recorded log; `python -m tests.faults --only cuts` makes logs and cuts them 1,000 times."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.faults.cuts import left_open, tried
from tests.faults.study import Bench, Result
from tests.support.places import DATA

LOGS = ("print_break.torch.log",)


def test_a_cut_is_said_wherever_the_log_shows_it(tmp_path: Path) -> None:
    logs = [Path(shutil.copy(DATA / name, tmp_path)) for name in LOGS]
    results = [each.result for each in tried(logs, Bench((sys.executable, "-m", "ctrace"), 120, 18, tmp_path))]
    assert set(results) <= {Result.FINE, Result.SILENT}
    assert results.count(Result.SILENT) <= 12  # one in ten; the whole study says 3 %


@pytest.mark.parametrize("name", LOGS)
def test_a_whole_log_leaves_nothing_open(name: str) -> None:
    assert left_open(DATA / name) == ""
