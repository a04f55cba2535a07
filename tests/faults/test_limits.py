"""Hostile sizes; `python -m tests.faults --only "hostile sizes"` prints the peak memory of each."""

import sys
from pathlib import Path

import pytest

from tests.faults.limits import FAULTS
from tests.faults.study import Bench, Result


@pytest.mark.slow
def test_hostile_sizes_take_bounded_memory(tmp_path: Path) -> None:
    bench = Bench((sys.executable, "-m", "ctrace"), FAULTS.full, 18, tmp_path)
    assert [each for each in FAULTS.run(bench) if each.result is not Result.FINE] == []
