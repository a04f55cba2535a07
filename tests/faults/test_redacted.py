"""Redactions and damages; `python -m tests.faults --only "redacted and damaged"` tries 60."""

import sys
from pathlib import Path

import pytest

from tests.faults.redacted import FAULTS
from tests.faults.study import Bench, Result


@pytest.mark.slow
def test_redactions_lose_nothing_and_damage_is_named(tmp_path: Path) -> None:
    bench = Bench((sys.executable, "-m", "ctrace"), 60, 18, tmp_path)
    assert [each for each in FAULTS.run(bench) if each.result not in (Result.FINE, Result.SILENT)] == []
