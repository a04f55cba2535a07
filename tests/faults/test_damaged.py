"""A few damaged logs; `python -m tests.faults --only damaged` tries 3,000."""

import sys
from pathlib import Path

from tests.faults.damaged import FAULTS
from tests.faults.study import Bench, Result


def test_no_damage_crashes_a_view_or_hides_a_finding(tmp_path: Path) -> None:
    bench = Bench((sys.executable, "-m", "ctrace"), 60, 18, tmp_path)
    bad = [each for each in FAULTS.run(bench) if each.result not in (Result.FINE, Result.SILENT)]
    assert bad == []
