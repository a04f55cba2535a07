"""A log of torch alone says what ctrace's own log of the same program says, as far as torch logs it."""

from pathlib import Path

import pytest

from tests.support.both_ways import both, differences
from tests.support.record import SCRIPTS
from tests.support.warm import WarmServer

pytestmark = pytest.mark.integration

FEW = ("try_break", "several_causes", "no_ops", "fused", "suppressed_errors", "raises")
"""Breaks, several entries, functions without a graph, kernels, errors."""
MORE = ("print_break", "loop_over_size", "sizes", "nearest_is_older", "trained", "counted")
"""More breaks and entries, sizes, a backward, a custom operator."""
PROGRAMS = (*FEW, *(pytest.param(name, marks=pytest.mark.slow) for name in MORE))


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_logs_say_the_same(name: str, tmp_path: Path, warm_server: WarmServer | None):
    ours, torchs = both(SCRIPTS / f"{name}.py", tmp_path.resolve(), warm_server)
    assert ours.compilations, "the program compiled nothing, so the test would prove nothing"
    assert list(differences(ours, torchs)) == []
