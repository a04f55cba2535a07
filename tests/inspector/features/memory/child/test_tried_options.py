"""A tried change is compared with the peak that users are shown."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from ctrace.inspector.features.memory.child.storage_ledger import AliveMoment
from ctrace.inspector.features.memory.child.tried_options import OptionCandidate, OptionTrials


def test_what_libraries_keep_is_in_both_peaks():
    ledger = SimpleNamespace(
        device=lambda: "cuda",
        alive=dict,
        begin=lambda: None,
        set_aside=lambda before: None,
        peak=lambda device: SimpleNamespace(bytes=900),
    )
    calls: Any = SimpleNamespace(ledger=ledger, forget=lambda: None, step=lambda model: None)
    trials = OptionTrials(calls, lambda: None, AliveMoment(1000, {}, "", ""), 0.0, kept=65)
    option = trials._try(OptionCandidate("budget", "a budget", "statement", nullcontext, counts_flops=False))
    assert option.peak_bytes == option.computed_bytes == 900 + 65
