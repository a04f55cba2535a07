"""Each value that does not exist: where the call stops, or that torch carries it (benchmarks/_fake_spots.py)."""

import resource

import pytest
from _fake_spots import NEEDS_NONE, SPOTS, STOPS, SYMBOL, model_of

from tests.integration.conftest import Command

_WIDTH = 16384
"""Two layers have 2 GiB of weights: none of that may be there."""
_MOST_KIB = 1_500_000
_SAMPLE = frozenset(("caught", "numpy", "router by hit experts", "tolist, carried", "inputs: mask", "assert", "cond"))


def _largest_child() -> int:
    """Return the peak memory of the largest process that this one has started so far, for other tests too, in KiB."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=() if each in _SAMPLE else (pytest.mark.slow,)) for each in SPOTS]
)
def test_it_stops_at_its_line_or_goes_on(ctrace: Command, name: str) -> None:
    spot = SPOTS[name]
    text, line = model_of(spot, _WIDTH)
    ctrace.write("model.py", text)
    before = _largest_child()
    done = ctrace("explain", "model.py", "--fake", "--fast", "--json", *(("--train",) if spot.train else ()))
    assert _largest_child() <= max(before, _MOST_KIB)
    if not done.out:  # the model or its inputs were not made
        assert (done.code, spot.expected) == (2, STOPS)
        assert f"model.py:{line} asks for " in done.err.splitlines()[-2]
        return
    report = done.report
    stopped, assumed = report["stopped"], report["assumed"]
    if spot.expected == STOPS:
        assert (stopped["line"], report["verdict"]) == (line, "incomplete")
    elif spot.expected == SYMBOL:
        assert stopped is None
        assert {(each["line"], each["from"]) for each in assumed} == {(line, "symbol")}
    else:
        assert spot.expected == NEEDS_NONE
        assert (stopped, assumed, report["error"]) == (None, [], None)
