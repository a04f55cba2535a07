"""A few broken logs; `python -m tests.faults --only framing` tries 10,000."""

import sys
from pathlib import Path

from tests.faults.framing import FAULTS, broken_lines
from tests.faults.study import Bench, Result
from tests.support.helpers import Log


def test_every_break_is_reported(tmp_path: Path) -> None:
    bench = Bench((sys.executable, "-m", "ctrace"), 60, 25, tmp_path)
    bad = [each for each in FAULTS.run(bench) if each.result not in (Result.FINE, Result.SILENT)]
    assert bad == []


def test_the_plain_reader_finds_breaks() -> None:
    log = Log().artifact("a", "1").line("a program printed this").artifact("b", "2").text.encode()
    assert broken_lines(log) == {3}
    assert broken_lines(log.replace(b"\t1", b"\t2")) == {1, 3}
    assert broken_lines(b"\tlost\n" + log) == {1, 4}
