"""A few hostile run files; `python -m tests.faults --only hostile` tries 2,500."""

import sys
from pathlib import Path

from tests.faults.hostile import FAULTS
from tests.faults.study import Bench, Result


def test_no_hostile_run_spoils_another(tmp_path: Path) -> None:
    bench = Bench((sys.executable, "-m", "ctrace"), 40, 18, tmp_path)
    tried = list(FAULTS.run(bench))
    assert len(tried) == 40
    assert [each for each in tried if each.result is not Result.FINE] == []
