"""Follow storages from their allocation to their end."""

import torch

from ctrace.inspector.features.memory.child.storage_ledger import (
    NOWHERE,
    CodeOrigin,
    Ledger,
    TrackedStorage,
    device_name,
)

HERE = CodeOrigin("model.py", 4, "f")


def total(ledger: Ledger) -> int:
    return sum(ledger.alive().values())


def test_a_view_counts_once_and_keeps_its_storage_alive() -> None:
    ledger = Ledger()
    tensor = torch.empty(8)
    view = tensor[2:]
    ledger.add(tensor, HERE, "aten.empty")
    ledger.add(view, NOWHERE, "aten.slice")
    assert total(ledger) == 32
    del tensor
    assert total(ledger) == 32
    del view
    assert total(ledger) == 0
    assert [each.bytes for each in ledger.changes] == [32, -32]


def test_what_only_autograd_holds_is_alive() -> None:
    ledger = Ledger()
    weight = torch.empty(8, requires_grad=True)
    middle = weight.exp()
    ledger.add(middle, HERE, "aten.exp")
    result = middle.sum()
    del middle
    assert total(ledger) == 32
    result.backward()
    assert total(ledger) == 0


def test_the_peak_has_what_was_alive_then() -> None:
    ledger = Ledger()
    first = torch.empty(8)
    ledger.add(first, HERE, "aten.empty", "parameter")
    ledger.begin()
    ledger.at = "model.py:5"
    second = torch.empty(4)
    ledger.add(second, CodeOrigin("model.py", 5, "f"), "aten.empty")
    del second
    third = torch.empty(2)
    ledger.add(third, CodeOrigin("model.py", 6, "f"), "aten.empty")
    peak = ledger.peak("cpu")
    assert (peak.bytes, peak.at) == (48, "model.py:5")
    assert sorted((each.kind, each.origin.line, size) for each, size in peak.alive.items()) == [
        ("parameter", 4, 32),
        ("temporary", 5, 16),
    ]


def on(device: torch.device, size: int) -> TrackedStorage:
    return TrackedStorage(0, device_name(device), HERE, "aten.empty", (size,), "uint8", set())


def test_of_several_gpus_the_fullest_one_counts_and_no_sum() -> None:
    ledger = Ledger()
    for device, size in (("cuda", 60), ("cuda:0", 10), ("cuda:1", 100), ("cpu", 500)):
        ledger.resize(on(torch.device(device), size), size)
    assert ledger.device() == "cuda:1"
    assert ledger.peak(ledger.device()).bytes == 100
    assert ledger.peak("cuda").bytes == 70
    assert ledger.devices() == {"cpu", "cuda", "cuda:1"}


def test_a_storage_that_grows_is_followed() -> None:
    ledger = Ledger()
    tensor = torch.empty(2)
    ledger.add(tensor, HERE, "aten.empty")
    tensor.resize_(8)
    ledger.add(tensor, HERE, "aten.resize_")
    assert [each.bytes for each in ledger.changes] == [8, 24]


def test_what_ends_while_the_ledger_is_closed_waits() -> None:
    ledger = Ledger()
    tensor = torch.empty(8)
    stored = ledger.add(tensor, HERE, "aten.empty")
    with ledger.closed():
        del tensor
    assert [each.bytes for each in ledger.changes] == [32]
    assert list(ledger.ended_inside()) == [stored]
    assert not ledger.ended_inside()


def test_a_buffer_of_a_graph_lives_as_long_as_its_result() -> None:
    ledger = Ledger()
    stored = ledger.add(torch.empty(8), HERE, "aten.empty")
    assert stored is not None
    assert total(ledger) == 0
    result = torch.empty(8)
    ledger.resize(stored, 32)
    ledger.adopt(result, stored)
    assert total(ledger) == 32
    del result
    assert total(ledger) == 0


def test_a_long_run_keeps_its_peak(monkeypatch) -> None:
    monkeypatch.setattr("ctrace.inspector.features.memory.child.storage_ledger.MOST_CHANGES", 10)
    ledger = Ledger()
    large = torch.empty(100)
    ledger.add(large, HERE, "aten.empty")
    del large
    for _ in range(30):
        small = torch.empty(1)
        ledger.add(small, CodeOrigin("model.py", 9, "f"), "aten.empty")
        del small
    peak = ledger.peak("cpu")
    assert (peak.bytes, [each.origin.line for each in peak.alive]) == (400, [4])
    assert len(ledger.changes) <= 11


def test_fake_tensors_take_no_memory() -> None:
    from torch._subclasses import FakeTensorMode

    ledger = Ledger()
    with FakeTensorMode():
        assert ledger.add(torch.empty(8), HERE, "aten.empty") is None
    assert ledger.add(torch.empty(8, device="meta"), HERE, "aten.empty") is None
    assert not ledger.changes


def test_the_most_that_is_saved_is_that_of_one_time() -> None:
    ledger = Ledger()
    first, second = torch.empty(8), torch.empty(2)
    ledger.add(first, HERE, "aten.exp", "saved")
    ledger.add(torch.empty(100), HERE, "aten.exp", "saved", "parameter")
    del first
    ledger.add(second, CodeOrigin("model.py", 5, "f"), "aten.exp", "saved")
    assert ledger.most_saved("cpu") == 32
    assert sum(each.most for each in ledger.saved("cpu").values()) == 40
