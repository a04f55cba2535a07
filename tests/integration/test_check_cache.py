"""A second check notices what changed: a sample of the study in benchmarks/check_cache.py; all of it in the slow tests."""

import subprocess
import sys

import pytest

from tests.support.observing import observable
from tests.support.places import ROOT

STUDY = ROOT / "benchmarks" / "check_cache.py"


def studied(*options: str) -> str:
    done = subprocess.run([sys.executable, STUDY, *options], capture_output=True, text=True, cwd=STUDY.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
@observable
def test_changes_are_noticed_and_what_is_none_is_not() -> None:
    out = studied("--together", "--every", "9")
    assert "ok    missing and appears" in out
    assert "ok    no change" in out


@observable
@pytest.mark.slow
def test_every_change_of_the_study() -> None:
    assert "no change: 25 of 25 reused" in studied()
