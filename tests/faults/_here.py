"""Make a bench for the checkout of these tests, which need not be installed."""

import sys
from pathlib import Path

from tests.faults.study import Bench
from tests.support.places import ROOT

_BOOT = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from ctrace.cli.main import app; app(prog_name='ctrace')"


def bench_here(folder: Path) -> Bench:
    """Make a bench for one try in an empty folder."""
    return Bench((sys.executable, "-c", _BOOT), 1, 18, folder)
