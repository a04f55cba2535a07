"""A tried change is compared with the peak that users are shown."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn import functional

from ctrace.inspector.facts.memory_facts import MemoryOption
from ctrace.inspector.features.memory.child.model_calls import MeasuredPeak
from ctrace.inspector.features.memory.child.storage_ledger import AliveMoment
from ctrace.inspector.features.memory.child.tried_options import (
    OptionCandidate,
    OptionTrials,
    _functions_in_place,
    _modules_in_place,
    _noting_calls,
)


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


@pytest.mark.parametrize(("copied", "names"), [(None, []), (0, []), (4096, ["static_inputs"])])
def test_static_inputs_are_offered_where_cuda_graphs_copy_some(copied: int | None, names: list[str]):
    ledger = SimpleNamespace(device=lambda: "cuda", changes=())
    calls: Any = SimpleNamespace(ledger=ledger, options=SimpleNamespace(train=False), optimizer=None, is_fake=True)
    trials = OptionTrials(calls, lambda: None, AliveMoment(1000, {}, "", ""), 0.0, copied=copied)
    assert [each.name for each in trials._candidates()] == names


def test_a_function_works_in_place_unless_its_call_says_otherwise():
    called: set[str] = set()
    with _noting_calls(called):
        functional.relu(torch.ones(2))
        functional.silu(torch.ones(2), inplace=False)
    assert called == {"relu"}
    (unit,) = _functions_in_place(called)
    x = torch.tensor([-1.0, 2.0])
    with unit.made():
        functional.relu(x, False)
        assert x.tolist() == [-1.0, 2.0]
        functional.relu(x)
    assert x.tolist() == [0.0, 2.0]
    assert unit.text == "torch.nn.functional.relu"
    functional.relu(y := torch.tensor([-1.0]))
    assert y.tolist() == [-1.0]


def test_modules_that_differ_in_a_number_are_one():
    layers = [torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()) for _ in range(3)]
    model = torch.nn.Sequential(*layers, torch.nn.Dropout(), torch.nn.SiLU(inplace=True))
    assert [each.text for each in _modules_in_place(model)] == ["model.*.* (ReLU)", "model.* (Dropout)"]
