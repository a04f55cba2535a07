"""A few tries of the study of disks."""

from pathlib import Path

import pytest

from tests.faults._here import bench_here
from tests.faults.disks import KINDS, attempt, possible
from tests.faults.study import Result

FEW = (
    "the disk fills early in the log",
    pytest.param("the program deletes .ctrace", marks=pytest.mark.slow),
    pytest.param("the program deletes .ctrace while advice is tried", marks=pytest.mark.slow),
    pytest.param("files of 4 KiB at most", marks=pytest.mark.slow),
    pytest.param("stdout is full", marks=pytest.mark.slow),
)


@pytest.mark.integration
@pytest.mark.parametrize("name", FEW)
def test_a_run_is_shown_though_it_cannot_be_saved(name: str, tmp_path: Path) -> None:
    kind = next(each for each in KINDS if each.name == name)
    if not possible(kind):
        pytest.skip("this system spoils no disk so: it takes Linux, and root where something is mounted")
    found = attempt(bench_here(tmp_path), kind, "explain", tmp_path / "try")
    assert (found.result, found.detail) == (Result.FINE, "")
