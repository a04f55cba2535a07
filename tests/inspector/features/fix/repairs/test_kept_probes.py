"""Which probes compiled calls repeat."""

import pytest

from ctrace.inspector.facts.trial import Entry, Observed
from ctrace.inspector.features.fix.child.probes import probes
from ctrace.inspector.features.fix.repairs.proving import _OF_VALUES, _compiled_probes


@pytest.mark.thorough
def test_each_probe_that_runs_an_earlier_graph_exists():
    assert set(_OF_VALUES) <= set(probes())


def test_probes_of_values_run_the_graphs_of_others_unless_they_raise():
    names = tuple(f"base, {name}" for name in ("negated", "ones", "NaN", "float16"))
    entries = tuple(Entry(name, raised="ValueError: NaN" if name == "base, NaN" else "") for name in names)
    chosen, kept = _compiled_probes(Observed(entries, (), names))
    assert chosen[0] == "base, negated"
    assert kept == ("base, ones",)
