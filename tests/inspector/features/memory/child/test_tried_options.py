"""A tried change is compared with the peak that users are shown."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from ctrace.inspector.facts.memory_facts import MemoryOption
from ctrace.inspector.features.memory.child.model_calls import MeasuredPeak
from ctrace.inspector.features.memory.child.storage_ledger import AliveMoment
from ctrace.inspector.features.memory.child.tried_options import OptionCandidate, OptionTrials


def test_what_libraries_keep_is_in_both_peaks():
    ledger = SimpleNamespace(
        device=lambda: "cuda",
        changes=(),
        alive=dict,
        begin=lambda: None,
        set_aside=lambda before: None,
        peak=lambda device: SimpleNamespace(bytes=900),
    )
    calls: Any = SimpleNamespace(ledger=ledger, forget=lambda: None, step=lambda model: None)
    trials = OptionTrials(calls, lambda: None, AliveMoment(1000, {}, "", ""), 0.0, kept=65)
    option = trials._try(OptionCandidate("budget", "a budget", "statement", nullcontext, counts_flops=False))
    assert option.peak_bytes == option.computed_bytes == 900 + 65


def test_a_change_that_lowers_only_the_computed_peak_is_not_first(monkeypatch: pytest.MonkeyPatch):
    names = ("least", "less", "more")
    computed = {"least": 100, "less": 200, "more": 300}
    builds = iter([1000, 700])
    calls: Any = SimpleNamespace(ledger=SimpleNamespace(device=lambda: "cuda", changes=()), forget=lambda: None)
    trials = OptionTrials(calls, lambda: None, AliveMoment(400, {}, "", ""), 0.0)
    monkeypatch.setattr(
        trials, "_candidates", lambda: [OptionCandidate(name, name, "statement", nullcontext) for name in names]
    )
    monkeypatch.setattr(trials, "_try", lambda each: _tried(each, computed[each.name]))
    found = trials.tried(60.0, lambda: MeasuredPeak(next(builds)), 1000)
    assert [(each.name, each.peak_bytes, each.measured) for each in found] == [
        ("less", 700, True),
        ("more", 300, False),
        ("least", 1000, True),
    ]


def _tried(candidate: OptionCandidate, size: int) -> MemoryOption:
    return MemoryOption(
        candidate.name, candidate.text, None, None, size, 0.0, computed_bytes=size, tried=True, measured=False
    )
