"""A few broken logs; `python -m tests.faults --only framing` tries 10,000."""

import subprocess
import sys

from tests.faults.framing import broken_lines
from tests.support.helpers import Log
from tests.support.places import ROOT


def test_every_break_is_reported() -> None:
    # In a process of its own: the study limits its memory, and a worker of pytest may have imported torch.
    study = [sys.executable, "-m", "tests.faults", "--only", "broken framing", "--tries", "25"]
    done = subprocess.run(study, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tries    25" in done.stdout


def test_the_plain_reader_finds_breaks() -> None:
    log = Log().artifact("a", "1").line("a program printed this").artifact("b", "2").text.encode()
    assert broken_lines(log) == {3}
    assert broken_lines(log.replace(b"\t1", b"\t2")) == {1, 3}
    assert broken_lines(b"\tlost\n" + log) == {1, 4}
