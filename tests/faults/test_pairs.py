"""A few tries of the study of pairs."""

from pathlib import Path

import pytest

from tests.faults._here import bench_here
from tests.faults.pairs import explains, update
from tests.faults.study import Result


@pytest.mark.integration
def test_two_updates_at_once(tmp_path: Path) -> None:
    assert update(bench_here(tmp_path), tmp_path) == (Result.FINE, "")


@pytest.mark.integration
@pytest.mark.slow
def test_two_runs_in_one_second(tmp_path: Path) -> None:
    assert explains(bench_here(tmp_path), tmp_path) == (Result.FINE, "")
